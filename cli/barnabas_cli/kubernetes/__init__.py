"""What the chart's jobs do inside a Kubernetes cluster: create certificates, and apply users and ACLs."""
