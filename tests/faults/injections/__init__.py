"""What is done to the cluster: each fault a function of the Stage, which takes back what it did."""
