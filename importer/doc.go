// Package importer translates CREs, the rules of preq, into packs. It keeps the meaning of a rule,
// or refuses it with the reason. It reads no files and starts no engines: the caller checks and
// tests the packs.
package importer
