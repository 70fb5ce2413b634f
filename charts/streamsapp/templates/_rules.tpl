{{/*
The operator's rights where it runs applications. Their reasons are in docs/security.md, and tests compare this with
tests/integration/chart/allowed.yaml: both change together or the tests fail.
*/}}
{{- define "streamsapp.rules" -}}
# Applications: their finalizer is patched, their status is written. It never makes or deletes one.
- apiGroups: [streamsapp.dev]
  resources: [streamsapps]
  verbs: [get, list, watch, patch]
- apiGroups: [streamsapp.dev]
  resources: [streamsapps/status]
  verbs: [patch]
# Children. Owner references delete them, the operator does not.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch]
# A configuration per revision: configurations that nothing refers to any more are deleted.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# The applications' tokens are written and never read: a create or an update answers with what was sent, a patch would
# answer with what else is there.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, update]
# Pods that check a new revision are made, and evicted when they are done. Nothing is deleted past a budget.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# The Jobs that make state of history before an application's first pods, and that preview a new revision; they are
# deleted when their results are in the status.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
# The CronJob of an application whose query catches up by a schedule; it is deleted when the application runs all the time.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
