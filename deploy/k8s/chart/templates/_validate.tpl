{{/* Checks of values against each other that a schema can't express: they fail with one line, and nothing is rendered. */}}
{{- define "barnabas.validate" -}}
{{- $values := .Values -}}
{{- $logstores := int $values.logstore.replicas -}}
{{- $external := $values.externalAccess -}}
{{- if $external.enabled -}}
{{- if not $external.trustedNetwork -}}
{{- fail "externalAccess: there is no authentication and no encryption yet; set externalAccess.trustedNetwork=true to state that any client that can reach the port may read and write all topics" -}}
{{- end -}}
{{- if not $external.host -}}
{{- fail "externalAccess.host is empty: name the host or address that clients outside connect to" -}}
{{- end -}}
{{- $isPerBroker := ne $values.cluster.addressPolicy "shared" -}}
{{- $first := ternary $external.nodePort $external.port (eq $external.type "NodePort") | int -}}
{{- $last := ternary (add $first $logstores | int) $first $isPerBroker -}}
{{- if and (eq $external.type "NodePort") (gt $last 32767) -}}
{{- fail (printf "externalAccess.nodePort=%d: %d logstores have the ports after it up to %d, and node ports end at 32767" $first $logstores $last) -}}
{{- end -}}
{{- if gt $last 65535 -}}
{{- fail (printf "externalAccess.port=%d: %d logstores have the ports after it up to %d, and ports end at 65535" $first $logstores $last) -}}
{{- end -}}
{{- end -}}
{{- if eq $values.cluster.addressPolicy "colocated" -}}
{{- if not $values.cluster.laneDirectory -}}
{{- fail "cluster.addressPolicy=colocated needs cluster.laneDirectory: without it a gateway and its logstore exchange messages by the network all the same" -}}
{{- end -}}
{{- if $values.gateway.autoscaling.enabled -}}
{{- fail "cluster.addressPolicy=colocated has a gateway for each logstore: set gateway.autoscaling.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- $replication := int $values.cluster.defaultReplicationFactor -}}
{{- if gt $replication $logstores -}}
{{- fail (printf "cluster.defaultReplicationFactor=%d is more than logstore.replicas=%d" $replication $logstores) -}}
{{- end -}}
{{- if gt (int $values.cluster.minInsyncReplicas) $replication -}}
{{- fail (printf "cluster.minInsyncReplicas=%d is more than cluster.defaultReplicationFactor=%d: no append with acks=all would succeed" (int $values.cluster.minInsyncReplicas) $replication) -}}
{{- end -}}
{{- if and $values.etcd.bundled.enabled $values.etcd.external.endpoints -}}
{{- fail "etcd.external.endpoints are given and etcd.bundled.enabled is true: set it to false to use them" -}}
{{- end -}}
{{- if not (or $values.etcd.bundled.enabled $values.etcd.external.endpoints) -}}
{{- fail "etcd.external.endpoints is empty: name the members (host:port), or set etcd.bundled.enabled=true for a trial" -}}
{{- end -}}
{{- if and $values.etcd.external.tls.clientCertificate (not $values.etcd.external.tls.existingSecret) -}}
{{- fail "etcd.external.tls.clientCertificate needs etcd.external.tls.existingSecret, with ca.crt, tls.crt and tls.key" -}}
{{- end -}}
{{- if eq $values.internalTls.mode "secrets" -}}
{{- range $role, $secret := $values.internalTls.secrets -}}
{{- if not $secret -}}
{{- fail (printf "internalTls.secrets.%s is empty: name the Secret with ca.crt, tls.crt and tls.key of that role" $role) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $scaling := $values.gateway.autoscaling -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- fail (printf "gateway.autoscaling.minReplicas=%d is more than maxReplicas=%d" (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- if lt (int $values.gateway.terminationGracePeriodSeconds) (add (int $values.gateway.drainSeconds) 10 | int) -}}
{{- fail (printf "gateway.terminationGracePeriodSeconds=%d is too short for gateway.drainSeconds=%d and 10 s to close connections" (int $values.gateway.terminationGracePeriodSeconds) (int $values.gateway.drainSeconds)) -}}
{{- end -}}
{{- range $role := list "gateway" "logstore" "purgatory" "controller" -}}
{{- $shared := include "barnabas.keys" $ | fromYaml -}}
{{- $own := include (printf "barnabas.keys.%s" $role) $ | fromYaml -}}
{{- $variables := list "POD_NAME" "POD_IP" -}}
{{- if $values.cluster.laneDirectory -}}{{- $variables = append $variables "BARNABAS_LANE_DIRECTORY" -}}{{- end -}}
{{- range include (printf "barnabas.environment.%s" $role) $ | fromYamlArray -}}{{- $variables = append $variables .name -}}{{- end -}}
{{- range (index $values $role).extraEnv -}}
{{- if has .name $variables -}}
{{- fail (printf "%s.extraEnv: %s is set by the chart" $role .name) -}}
{{- end -}}
{{- end -}}
{{- $labels := include "barnabas.labels" (list (dict "Release" $.Release "Chart" $.Chart "Values" dict) $role) | fromYaml -}}
{{- range $label := concat (keys $values.commonLabels) (keys (index $values $role).podLabels) | sortAlpha -}}
{{- if hasKey $labels $label -}}
{{- fail (printf "commonLabels, %s.podLabels: %s is set by the chart, as a selector of pods" $role $label) -}}
{{- end -}}
{{- end -}}
{{- $perPod := list "gateway.id" "node.id" "broker.id" "pod.id" "controller.id" "advertised.listeners" "broker.rack" "log.dir" -}}
{{- range $key, $value := (index $values $role).config -}}
{{- if or (hasKey $shared $key) (hasKey $own $key) (has $key $perPod) -}}
{{- fail (printf "%s.config: %s is set by the chart" $role $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "barnabas.validateScaleDown" . -}}
{{- end -}}

{{/* Only a live cluster has the previous number of logstores: `helm template` sees none. */}}
{{- define "barnabas.validateScaleDown" -}}
{{- $values := .Values.logstore -}}
{{- $name := printf "%s-logstore" (include "barnabas.fullname" .) -}}
{{- $live := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- if $live -}}
{{- $drained := list -}}
{{- range $values.drained -}}{{- $drained = append $drained (int .) -}}{{- end -}}
{{- range $id := untilStep (int $values.replicas) (int $live.spec.replicas) 1 -}}
{{- if not (has $id $drained) -}}
{{- fail (printf "logstore.replicas=%d removes logstore %d: drain it first, then confirm with --set logstore.drained={%d}" (int $values.replicas) $id $id) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
