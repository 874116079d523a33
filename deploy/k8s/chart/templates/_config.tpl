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
{{- if include "barnabas.etcdTlsSecret" (list . "controller") }}
etcd.tls.authority: /etc/etcd-tls/ca.crt
{{- if or $etcd.bundled.enabled $etcd.external.tls.clientCertificate }}
etcd.tls.certificate: /etc/etcd-tls/tls.crt
etcd.tls.key: /etc/etcd-tls/tls.key
{{- end }}
{{- end }}
{{- if and (not $etcd.bundled.enabled) $etcd.external.user }}
etcd.user: {{ $etcd.external.user | quote }}
{{- end }}
{{- if ne (include "barnabas.internalTlsMode" .) "none" }}
inter.service.tls.authority: /etc/barnabas-tls/ca.crt
inter.service.tls.certificate: /etc/barnabas-tls/tls.crt
inter.service.tls.key: /etc/barnabas-tls/tls.key
inter.service.tls.domain: {{ .Values.internalTls.domain | quote }}
{{- end }}
{{- include "barnabas.healthTlsKeys" . }}
log.level: {{ .Values.cluster.logLevel | quote }}
{{- if .Values.metrics.enabled }}
{{ include "barnabas.metricsKeys" . }}
{{- end }}
{{- end -}}

{{/* TLS of health, by the certificate that the pod has for the other services. */}}
{{- define "barnabas.healthTlsKeys" -}}
{{- if .Values.health.tls.enabled }}
health.tls.certificate: /etc/barnabas-tls/tls.crt
health.tls.key: /etc/barnabas-tls/tls.key
{{- if eq .Values.health.tls.clientAuth "required" }}
health.tls.authority: /etc/barnabas-tls/ca.crt
{{- end }}
{{- end }}
{{- end -}}

{{/* The health of roles other than the gateway, for probes, which have no certificate of a service. */}}
{{- define "barnabas.healthKey" -}}
{{- if ne (include "barnabas.internalTlsMode" .) "none" }}
health.listeners: "0.0.0.0:9401"
{{- end }}
{{- end -}}

{{/* Where a role's probes ask. Call with (list . 9300), the port without mutual TLS. */}}
{{- define "barnabas.probePort" -}}
{{- ternary (index . 1) 9401 (eq (include "barnabas.internalTlsMode" (index . 0)) "none") -}}
{{- end -}}

{{/*
How to ask a role for its health: Kubernetes' own probes have no TLS, so that a command asks instead. Call with
(list . "gateway" 9400), or (list . "logstore" 9300 "in-sync") for the health of one service.
*/}}
{{- define "barnabas.probe" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{- $port := index . 2 | int -}}
{{- $service := "" -}}
{{- if gt (len .) 3 -}}{{- $service = index . 3 -}}{{- end -}}
{{- if $root.Values.health.tls.enabled -}}
{{- $command := list "barnabas" "probe" (printf "127.0.0.1:%d" $port) "--tls-authority" "/etc/barnabas-tls/ca.crt" -}}
{{- $command = concat $command (list "--tls-certificate" "/etc/barnabas-tls/tls.crt" "--tls-key" "/etc/barnabas-tls/tls.key") -}}
{{- $command = concat $command (list "--tls-server-name" (printf "%s.%s" $role $root.Values.internalTls.domain)) -}}
{{- if $service -}}{{- $command = concat $command (list "--service" $service) -}}{{- end -}}
exec: {command: {{ toJson $command }}}
{{- else if $service -}}
grpc: {port: {{ $port }}, service: {{ $service }}}
{{- else -}}
grpc: {port: {{ $port }}}
{{- end -}}
{{- end -}}

{{/* The time that a probe has: a command has to start first. Call with (list . 2), that of Kubernetes' own in seconds. */}}
{{- define "barnabas.probeSeconds" -}}
{{- ternary 10 (index . 1) (index . 0).Values.health.tls.enabled -}}
{{- end -}}

{{- define "barnabas.healthPort" -}}
{{- if ne (include "barnabas.internalTlsMode" .) "none" }}
- name: health
  containerPort: 9401
{{- end }}
{{- end -}}

{{/* The Secret with a role's certificate; empty without mutual TLS. Call with (list . "gateway"). */}}
{{- define "barnabas.internalTlsSecret" -}}
{{- $root := index . 0 -}}
{{- $mode := include "barnabas.internalTlsMode" $root -}}
{{- if has $mode (list "generated" "certManager") -}}{{ include "barnabas.fullname" $root }}-{{ index . 1 }}-tls
{{- else if eq $mode "secrets" -}}{{ index $root.Values.internalTls.secrets (index . 1) }}
{{- end -}}
{{- end -}}

{{/* The Secret by which a role is known to etcd; empty without TLS. Call with (list . "gateway"). */}}
{{- define "barnabas.etcdTlsSecret" -}}
{{- $root := index . 0 -}}
{{- if not $root.Values.etcd.bundled.enabled -}}{{ $root.Values.etcd.external.tls.existingSecret }}
{{- else if eq (include "barnabas.etcdTls" $root) "generated" -}}{{ include "barnabas.fullname" $root }}-etcd-{{ index . 1 }}-tls
{{- end -}}
{{- end -}}

{{- define "barnabas.keys.gateway" -}}
{{ include "barnabas.listenerKeys" . }}
{{- if .Values.authorization.enabled }}
authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users: {{ join ";" .Values.authorization.superUsers | quote }}
allow.everyone.if.no.acl.found: {{ .Values.authorization.allowEveryoneIfNoAclFound }}
{{- end }}
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
{{ include "barnabas.operationsKeys" . }}
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
{{- if include "barnabas.etcdTlsSecret" (list . "controller") }}
# And kubectl exec deployment/… -- barnabas backup
- name: BARNABAS_ETCD_TLS_AUTHORITY
  value: /etc/etcd-tls/ca.crt
{{- if or .Values.etcd.bundled.enabled .Values.etcd.external.tls.clientCertificate }}
- name: BARNABAS_ETCD_TLS_CERTIFICATE
  value: /etc/etcd-tls/tls.crt
- name: BARNABAS_ETCD_TLS_KEY
  value: /etc/etcd-tls/tls.key
{{- end }}
{{- end }}
{{- if include "barnabas.hasOperatorSecret" . }}
- name: BARNABAS_OPERATOR_CONFIG
  value: /etc/barnabas/operator.properties
{{- end }}
- name: BARNABAS_ADVERTISED_LISTENERS
  value: $(POD_IP):9091
- name: BARNABAS_OPERATIONS_ADVERTISED_LISTENERS
  value: $(POD_IP):9090
{{- end -}}
