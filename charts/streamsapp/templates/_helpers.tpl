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
{{- include "streamsapp.labelsWith" (list . (include "streamsapp.selector" . | fromYaml) (dict "app.kubernetes.io/component" "operator")) }}
{{- end }}

{{/* The labels of a context, with more dicts of labels; the chart's own win over the user's, which come last. */}}
{{- define "streamsapp.labelsWith" -}}
{{- $context := first . }}
{{- $labels := dict
  "app.kubernetes.io/version" $context.Chart.AppVersion
  "app.kubernetes.io/part-of" "streamsapp"
  "app.kubernetes.io/managed-by" $context.Release.Service
  "helm.sh/chart" (printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_") }}
{{- range rest . }}{{ $labels = merge $labels . }}{{ end }}
{{- merge $labels $context.Values.commonLabels | toYaml }}
{{- end }}

{{/* The name of an image, of its values; the chart's version is the tag where neither tag nor digest is given. */}}
{{- define "streamsapp.image" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
{{- $registry := default $image.registry $root.Values.global.imageRegistry }}
{{- $name := printf "%s/%s" $registry $image.repository }}
{{- $tag := default (ternary "" $root.Chart.AppVersion (ne $image.digest "")) $image.tag }}
{{- $name }}{{ if $tag }}:{{ $tag }}{{ end }}{{ if $image.digest }}@{{ $image.digest }}{{ end }}
{{- end }}

{{/* Secrets to pull images with, as a JSON list of names: those of the values, and those of all charts. */}}
{{- define "streamsapp.pullSecrets" -}}
{{- $names := list }}
{{- range concat (index . 1) (index . 0).Values.global.imagePullSecrets }}
{{- $names = append $names (kindIs "string" . | ternary . (get (kindIs "string" . | ternary dict .) "name")) }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{- define "streamsapp.serviceAccount" -}}
{{- $made := .Values.serviceAccount.create | ternary (include "streamsapp.fullname" .) "default" }}
{{- default $made .Values.serviceAccount.name }}
{{- end }}

{{- define "streamsapp.monitoringNamespace" -}}
{{- default .Release.Namespace .Values.monitoring.namespace }}
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
True if the CustomResourceDefinition is this release's: no other release has it. Without a cluster to ask it is.
Helm would refuse to touch another release's definition, and would refuse the whole installation with it.
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

{{/* True if pods have the images' user and group; otherwise the cluster gives them one, as OpenShift does. */}}
{{- define "streamsapp.fixedUser" -}}
{{- $fixed := .Values.security.fixedUser }}
{{- if or (eq $fixed "always") (and (eq $fixed "auto") (not (.Capabilities.APIVersions.Has "security.openshift.io/v1"))) }}yes{{ end }}
{{- end }}

{{/* Both the operator and `helm test` pass the restricted Pod Security Standard, as the values are by default. */}}
{{- define "streamsapp.podSecurity" -}}
{{- $user := ternary (dict "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532) dict (eq (include "streamsapp.fixedUser" .) "yes") }}
{{- merge (deepCopy .Values.operator.podSecurityContext) $user | toYaml }}
{{- end }}

{{- define "streamsapp.testSelector" -}}
app.kubernetes.io/name: {{ include "streamsapp.name" . }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
