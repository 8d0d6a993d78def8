//go:build server

// The streaming server is built from this module too, so that go.mod and go.sum pin all of it.
package main

import _ "github.com/nats-io/nats-streaming-server"
