#!/usr/bin/env bash
exec "$(dirname "$0")/run-tool" org.apache.kafka.tools.AclCommand "$@"
