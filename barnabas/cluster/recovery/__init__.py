"""The cluster's state in etcd made again: of a back-up, of what the disks of the logstores hold, or of both.

What is written is safe whatever has happened since the back-up: a partition is led by whoever has the longest log of
the latest epoch, and nothing that counts upwards is given twice (`plan`).
"""
