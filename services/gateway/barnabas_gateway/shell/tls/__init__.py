"""TLS on client listeners: keys and certificates, handshakes, sockets."""
