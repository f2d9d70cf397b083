package findings

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// The subset of SARIF 2.1.0 that SARIF writes.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string       `json:"id"`
		Short   sarifText    `json:"shortDescription"`
		Help    sarifText    `json:"help"`
		Default sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI     string `json:"uri"`
		URIBase string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// SARIF writes a SARIF 2.1.0 log with one run. version is that of crowsnest.
func SARIF(w io.Writer, all []Finding, version string) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "crowsnest", Version: version, Rules: []sarifRule{}}
	index := checksOf(all)
	for _, check := range index {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, ruleOf(check, all))
	}
	for _, f := range all {
		i, _ := slices.BinarySearch(index, f.Check)
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Check, RuleIndex: i, Level: levelOf(f.Level), Message: sarifText{f.text()}, Locations: locations(f),
			Fingerprints: map[string]string{"crowsnest/v1": fingerprint(f)},
		})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}

func checksOf(all []Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, f.Check)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ruleOf describes a check; its level is that of the worst finding.
func ruleOf(check string, all []Finding) sarifRule {
	level := Notice
	for _, f := range all {
		if f.Check == check && (f.Level == Error || f.Level == Warning && level == Notice) {
			level = f.Level
		}
	}
	help := Help(check)
	short, _, _ := strings.Cut(help, ". ")
	return sarifRule{ID: check, Short: sarifText{strings.TrimSuffix(short, ".")}, Help: sarifText{help}, Default: sarifDefault{levelOf(level)}}
}

func levelOf(l Level) string {
	if l == Notice {
		return "note"
	}
	return string(l)
}

// locations returns the place of a finding; none if it has no file.
func locations(f Finding) []sarifLocation {
	if f.File == "" {
		return nil
	}
	p := sarifPhysical{Artifact: artifact(f.File)}
	if f.Line > 0 {
		p.Region = &sarifRegion{StartLine: f.Line, StartColumn: max(f.Column, 0)}
	}
	return []sarifLocation{{p}}
}

// artifact names a file. Relative paths are relative to the root of the sources.
func artifact(file string) sarifArtifact {
	path := filepath.ToSlash(filepath.Clean(file))
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(p), ":", "%3A") // a colon in the first part would make it a scheme
	}
	switch uri := strings.Join(parts, "/"); {
	case strings.HasPrefix(uri, "/"):
		return sarifArtifact{URI: "file://" + uri}
	case strings.HasPrefix(uri, "../"):
		return sarifArtifact{URI: uri}
	default:
		return sarifArtifact{URI: uri, URIBase: "%SRCROOT%"}
	}
}

// fingerprint identifies a finding even after its line has moved.
func fingerprint(f Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.Check, f.File, f.Rule, cmp.Or(f.Message, f.Fix)}, "\x00")))
	return hex.EncodeToString(sum[:16])
}
