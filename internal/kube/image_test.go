package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImage(t *testing.T) {
	f := func(asked, runs, want string) {
		t.Helper()
		require.Equal(t, want, BetterImage(asked, runs))
	}
	f("a/b:v1", "docker.io/a/b:v1", "a/b:v1")
	f("r:5000/a/b", "r:5000/a/b:latest", "r:5000/a/b:latest")
	f("a/b@sha256:00", "a/b:v1", "a/b:v1")
	f("a/b@sha256:00", "sha256:11", "a/b@sha256:00")
	f("a/b:v1@sha256:00", "", "a/b:v1@sha256:00")
	f("", "a/b:v1", "a/b:v1")
}
