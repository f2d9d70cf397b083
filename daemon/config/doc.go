// Package config decodes and checks the daemon's configuration file. It opens only those of the
// files named there that hold secrets and certificates, to check them.
package config
