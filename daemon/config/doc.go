// Package config decodes and checks the configuration file of the daemon. Of the files
// that it names, it opens only secrets and certificates, and only to check them.
package config
