{{/*
The name that everything begins with. It has to begin with a letter (names of Services do), and leaves room for what
Kubernetes puts behind a StatefulSet's name: 52 bytes in all.
*/}}
{{- define "barnabas.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name = ternary .Release.Name (printf "%s-%s" $chart .Release.Name) (hasPrefix $chart .Release.Name) -}}
{{- end -}}
{{- if gt (len $name) 40 -}}
{{- $name = printf "%s-%s" (trunc 31 $name | trimSuffix "-") (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* The selector labels of a role's pods; they can never change, because selectors are immutable. Call with (list . "gateway"). */}}
{{- define "barnabas.selectorLabels" -}}
app.kubernetes.io/name: barnabas
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Call with (list . "gateway"). */}}
{{- define "barnabas.labels" -}}
{{- $root := index . 0 -}}
{{ include "barnabas.selectorLabels" . }}
app.kubernetes.io/part-of: barnabas
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | quote }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object. Call with (list . "gateway" "name"). */}}
{{- define "barnabas.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 | quote }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  {{- include "barnabas.labels" (list $root (index . 1)) | nindent 2 }}
{{- end -}}

{{- define "barnabas.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "barnabas.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Call with (list . "gateway"). */}}
{{- define "barnabas.image" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{- $image := $root.Values.image -}}
{{- $tag := coalesce (index $root.Values $role).image.tag $image.tag $root.Chart.AppVersion -}}
{{- $repository := printf "%s-%s:%s" $image.repository $role $tag -}}
{{- with $image.registry -}}{{ . }}/{{- end -}}{{ $repository }}
{{- end -}}

{{/* host:port of every member, separated by commas. */}}
{{- define "barnabas.etcdEndpoints" -}}
{{- if .Values.etcd.bundled.enabled -}}
{{- $name := printf "%s-etcd" (include "barnabas.fullname" .) -}}
{{- $endpoints := list -}}
{{- range $ordinal := until (int .Values.etcd.bundled.replicas) -}}
{{- $endpoints = append $endpoints (printf "%s-%d.%s:2379" $name $ordinal $name) -}}
{{- end -}}
{{- join "," $endpoints -}}
{{- else -}}
{{- join "," .Values.etcd.external.endpoints -}}
{{- end -}}
{{- end -}}
