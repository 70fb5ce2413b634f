{{/* Names, labels, and what the operator may do. */}}

{{- define "streamsapp.name" -}}
streamsapp-operator
{{- end }}

{{/* The release's name says which one it is; it is not repeated where it is the chart's own. */}}
{{- define "streamsapp.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if or (contains .Release.Name (include "streamsapp.name" .)) (contains (include "streamsapp.name" .) .Release.Name) }}
{{- include "streamsapp.name" . | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "streamsapp.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "streamsapp.selector" -}}
app.kubernetes.io/name: {{ include "streamsapp.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* name=value,... of a dict */}}
{{- define "streamsapp.pairs" -}}
{{- $pairs := list }}
{{- range $name, $value := . }}{{ $pairs = append $pairs (printf "%s=%s" $name $value) }}{{ end }}
{{- join "," $pairs }}
{{- end }}

{{/* Of everything but the pods of `helm test`, which must not look like the operator. */}}
{{- define "streamsapp.labels" -}}
{{ include "streamsapp.selector" . }}
{{ include "streamsapp.commonLabels" . }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "streamsapp.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: streamsapp
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Watched namespaces as a JSON list; without meaning where the whole cluster is watched. */}}
{{- define "streamsapp.namespaces" -}}
{{- if .Values.watch.namespaces }}{{ .Values.watch.namespaces | uniq | sortAlpha | toJson }}{{ else }}{{ list .Release.Namespace | toJson }}{{ end }}
{{- end }}

{{- define "streamsapp.keySecret" -}}
{{- default (printf "%s-key" (include "streamsapp.fullname" .)) .Values.key.existingSecret }}
{{- end }}

{{- define "streamsapp.leaseName" -}}
{{- include "streamsapp.fullname" . }}
{{- end }}

{{/*
Whether the CustomResourceDefinition is this release's: nobody else has it. Without a cluster to ask it is.
What another release owns helm would refuse to touch, and the whole installation with it.
*/}}
{{- define "streamsapp.ownsCrd" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "streamsapps.streamsapp.dev" }}
{{- $annotations := dig "metadata" "annotations" (dict) $found }}
{{- $mine := and (eq (get $annotations "meta.helm.sh/release-name") .Release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") .Release.Namespace) }}
{{- if and .Values.crds.install (or (not $found) $mine) }}yes{{ end }}
{{- end }}

{{/*
CEL that is true if the schema `after` has every field of the schema `before`, down to the fourth level: there are no
more. CEL has no recursion, so each level is written out, once for objects and once for lists.
*/}}
{{- define "streamsapp.hasFields" -}}
{{- if gt (int .level) 4 }}true{{ else }}
{{- $field := printf "f%d" (int .level) }}
{{- $parts := list }}
{{- range $inside := list "" ".items" }}
{{- $before := printf "%s%s" $.before $inside }}
{{- $after := printf "%s%s" $.after $inside }}
{{- $deeper := dict "before" (printf "%s.properties[%s]" $before $field) "after" (printf "%s.properties[%s]" $after $field) "level" (add1 $.level) }}
{{- $has := ternary (printf "has(%s.items) && has(%s.properties)" $.before $before) (printf "has(%s.properties)" $before) (eq $inside ".items") }}
{{- $kept := ternary (printf "has(%s.items) && has(%s.properties)" $.after $after) (printf "has(%s.properties)" $after) (eq $inside ".items") }}
{{- $parts = append $parts (printf "(!(%s) || (%s && %s.properties.all(%s, %s in %s.properties && %s)))" $has $kept $before $field $field $after (include "streamsapp.hasFields" $deeper)) }}
{{- end }}
{{- join " && " $parts }}
{{- end }}
{{- end }}

{{/* Whether pods have the images' user and group; otherwise the cluster gives them one, as OpenShift does. */}}
{{- define "streamsapp.fixedUser" -}}
{{- $fixed := .Values.security.fixedUser }}
{{- if or (eq $fixed "always") (and (eq $fixed "auto") (not (.Capabilities.APIVersions.Has "security.openshift.io/v1"))) }}yes{{ end }}
{{- end }}

{{/* Both the operator and `helm test` pass the restricted Pod Security Standard. */}}
{{- define "streamsapp.podSecurity" -}}
runAsNonRoot: true
{{- if include "streamsapp.fixedUser" . }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "streamsapp.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "streamsapp.testSelector" -}}
app.kubernetes.io/name: {{ include "streamsapp.name" . }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
