// Package importer translates rules of other tools into packs: CREs, alerts in LogQL, and
// configurations of the Node Problem Detector. It keeps the meaning of a rule, or refuses it with
// the reason. It reads no files, and knows nothing about engines: the caller checks and tests the
// packs.
package importer
