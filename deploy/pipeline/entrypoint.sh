#!/bin/bash
# Spark on Kubernetes starts its containers with "driver …" or "executor", and says the rest in the environment:
# https://spark.apache.org/docs/latest/running-on-kubernetes.html. Anything else is a command to run.
# Each is the container's first process, so that SIGTERM reaches it.
set -eu

case "${1:-}" in
    driver)
        shift
        exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
            --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
        ;;
    executor)
        # One option of the JVM each, in this order; there may be blanks in them.
        options=()
        for ((i = 0; ; i++)); do
            name=SPARK_JAVA_OPT_$i
            [ -n "${!name+set}" ] || break
            options+=("${!name}")
        done
        classpath=$SPARK_HOME/conf:${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*
        exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
            -cp "$classpath" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
            --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
    *)
        exec "$@"
        ;;
esac
