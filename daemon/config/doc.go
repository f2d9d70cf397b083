// Package config is the configuration file of the daemon: its keys, their bounds
// and defaults, and what is wrong with a file. It opens nothing but the files
// that hold secrets and certificates, and those only to check them.
package config
