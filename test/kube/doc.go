// Package kube runs the daemon against a real Kubernetes API, in tests with the tag e2e.
package kube
