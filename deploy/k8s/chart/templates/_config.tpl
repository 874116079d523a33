{{/*
What each service is configured with: the chart's own keys and the user's. Call with (list . "gateway"); a properties
file. A user's key never replaces one of these: `barnabas.validate` refuses it.
*/}}
{{- define "barnabas.properties" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{- $roleKeys := printf "barnabas.keys.%s" $role -}}
{{- range $keys := list (include "barnabas.keys" $root | fromYaml) (include $roleKeys $root | fromYaml) (index $root.Values $role).config -}}
{{- range $key, $value := $keys }}
{{ $key }}={{ include "barnabas.text" $value }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Format a value for a properties file: Helm reads large numbers as floating point. */}}
{{- define "barnabas.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq (floor .) . -}}{{ printf "%.0f" . }}{{- else -}}{{ . }}{{- end -}}
{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* Keys of every service. */}}
{{- define "barnabas.keys" -}}
{{- $etcd := .Values.etcd -}}
etcd.endpoints: {{ include "barnabas.etcdEndpoints" . | quote }}
etcd.prefix: {{ $etcd.prefix | quote }}
{{- if include "barnabas.etcdTlsSecret" . }}
etcd.tls.authority: /etc/etcd-tls/ca.crt
{{- if $etcd.external.tls.clientCertificate }}
etcd.tls.certificate: /etc/etcd-tls/tls.crt
etcd.tls.key: /etc/etcd-tls/tls.key
{{- end }}
{{- end }}
{{- if ne .Values.internalTls.mode "none" }}
inter.service.tls.authority: /etc/barnabas-tls/ca.crt
inter.service.tls.certificate: /etc/barnabas-tls/tls.crt
inter.service.tls.key: /etc/barnabas-tls/tls.key
inter.service.tls.domain: {{ .Values.internalTls.domain | quote }}
{{- end }}
log.level: {{ .Values.cluster.logLevel | quote }}
{{- if .Values.metrics.enabled }}
metrics.listeners: "0.0.0.0:9404"
{{- end }}
{{- end -}}

{{/* The health of roles other than the gateway, for probes, which have no certificate. */}}
{{- define "barnabas.healthKey" -}}
{{- if ne .Values.internalTls.mode "none" }}
health.listeners: "0.0.0.0:9401"
{{- end }}
{{- end -}}

{{/* Where a role's probes ask. Call with (list . 9300), the port without mutual TLS. */}}
{{- define "barnabas.probePort" -}}
{{- ternary (index . 1) 9401 (eq (index . 0).Values.internalTls.mode "none") -}}
{{- end -}}

{{- define "barnabas.healthPort" -}}
{{- if ne .Values.internalTls.mode "none" }}
- name: health
  containerPort: 9401
{{- end }}
{{- end -}}

{{/* The Secret with a role's certificate; empty without mutual TLS. Call with (list . "gateway"). */}}
{{- define "barnabas.internalTlsSecret" -}}
{{- $root := index . 0 -}}
{{- $tls := $root.Values.internalTls -}}
{{- if eq $tls.mode "certManager" -}}{{ include "barnabas.fullname" $root }}-{{ index . 1 }}-tls
{{- else if eq $tls.mode "secrets" -}}{{ index $tls.secrets (index . 1) }}
{{- end -}}
{{- end -}}

{{- define "barnabas.etcdTlsSecret" -}}
{{- if not .Values.etcd.bundled.enabled -}}{{ .Values.etcd.external.tls.existingSecret }}{{- end -}}
{{- end -}}

{{- define "barnabas.keys.gateway" -}}
{{- $external := .Values.externalAccess -}}
{{- $listeners := list "PLAINTEXT://0.0.0.0:9092" -}}
{{- $host := ternary "broker-{id}" "gateway" (eq .Values.cluster.addressPolicy "colocated") -}}
{{- $advertised := list (printf "PLAINTEXT://%s-%s.%s.svc:9092" (include "barnabas.fullname" .) $host .Release.Namespace) -}}
{{- if $external.enabled -}}
{{- $port := ternary $external.nodePort $external.port (eq $external.type "NodePort") | int -}}
{{- $listeners = append $listeners "EXTERNAL://0.0.0.0:19092" -}}
{{- $advertised = append $advertised (printf "EXTERNAL://%s:%d" $external.host $port) }}
listener.security.protocol.map: "EXTERNAL:PLAINTEXT"
{{- end }}
listeners: {{ join "," $listeners | quote }}
advertised.listeners: {{ join "," $advertised | quote }}
advertised.address.policy: {{ ternary "shared" "per-broker-port" (eq .Values.cluster.addressPolicy "shared") | quote }}
ops.listeners: "0.0.0.0:9400"
num.network.threads: {{ .Values.gateway.processors }}
auto.create.topics.enable: {{ .Values.cluster.autoCreateTopics }}
{{- end -}}

{{- define "barnabas.keys.logstore" -}}
log.dirs: /data/logs
listeners: "0.0.0.0:9300"
control.listeners: "0.0.0.0:9301"
min.insync.replicas: {{ .Values.cluster.minInsyncReplicas }}
{{- include "barnabas.healthKey" . }}
{{- end -}}

{{- define "barnabas.keys.purgatory" -}}
listeners: "0.0.0.0:9600"
{{- include "barnabas.healthKey" . }}
{{- end -}}

{{- define "barnabas.keys.controller" -}}
listeners: "0.0.0.0:9091"
operations.listeners: "0.0.0.0:9090"
# Network policies say who reaches it.
operations.authentication: none
{{- include "barnabas.healthKey" . }}
default.replication.factor: {{ .Values.cluster.defaultReplicationFactor }}
num.partitions: {{ .Values.cluster.numPartitions }}
offsets.topic.replication.factor: {{ .Values.cluster.defaultReplicationFactor }}
min.insync.replicas: {{ .Values.cluster.minInsyncReplicas }}
{{- end -}}

{{/* Settings in the environment, because they differ by pod. */}}
{{- define "barnabas.environment.gateway" -}}
- name: BARNABAS_GATEWAY_ID
  value: $(POD_NAME)
{{- end -}}

{{- define "barnabas.environment.logstore" -}}
- name: BARNABAS_NODE_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
# An address rather than a name: it is registered again at every start, without waiting for DNS caches to expire.
- name: BARNABAS_ADVERTISED_LISTENERS
  value: $(POD_IP):9300
{{- if .Values.logstore.rack.fromZone }}
- name: BARNABAS_BROKER_RACK
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['topology.kubernetes.io/zone']
{{- end }}
{{- end -}}

{{- define "barnabas.environment.purgatory" -}}
- name: BARNABAS_POD_ID
  value: $(POD_NAME)
- name: BARNABAS_ADVERTISED_LISTENERS
  value: $(POD_IP):9600
{{- end -}}

{{- define "barnabas.environment.controller" -}}
- name: BARNABAS_CONTROLLER_ID
  value: $(POD_NAME)
# For the command line: kubectl exec deployment/… -- barnabas nodes list
- name: BARNABAS_CONTROLLER
  value: {{ include "barnabas.fullname" . }}-controller:9090
- name: BARNABAS_ADVERTISED_LISTENERS
  value: $(POD_IP):9091
- name: BARNABAS_OPERATIONS_ADVERTISED_LISTENERS
  value: $(POD_IP):9090
{{- end -}}
