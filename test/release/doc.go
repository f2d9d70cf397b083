// Package release tests what a release consists of: archives, packages, the image, the
// manifest of krew, and that builds are reproducible. Nothing is published.
package release
