// Command sbom writes the modules that a Go binary consists of, which it reads from the
// binary, as an SPDX 2.3 document: the same binary gives the same bytes. The environment
// variable SOURCE_DATE_EPOCH is its time in seconds.
//
//	go run ./test/release/sbom BINARY VERSION FILE
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "write the list of modules:", err)
		os.Exit(1)
	}
}

type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creationInfo   `json:"creationInfo"`
	Packages          []component    `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creationInfo struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type component struct {
	SPDXID           string        `json:"SPDXID"`
	Name             string        `json:"name"`
	VersionInfo      string        `json:"versionInfo"`
	DownloadLocation string        `json:"downloadLocation"`
	FilesAnalyzed    bool          `json:"filesAnalyzed"`
	LicenseConcluded string        `json:"licenseConcluded"`
	LicenseDeclared  string        `json:"licenseDeclared"`
	CopyrightText    string        `json:"copyrightText"`
	Checksums        []checksum    `json:"checksums,omitempty"`
	ExternalRefs     []externalRef `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

func write(binary, version, file, epoch string) error {
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	out, err := json.MarshalIndent(describe(info, version, fmt.Sprintf("%x", sha256.Sum256(data)), time.Unix(seconds, 0)), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(out, '\n'), 0o644) //nolint:gosec // it is published
}

// describe returns the document for a binary with this SHA-256 sum.
func describe(info *buildinfo.BuildInfo, version, sum string, created time.Time) document {
	const name, self = "crowsnest", "SPDXRef-binary"
	binary := module(self, info.Main.Path, version)
	binary.Checksums = []checksum{{Algorithm: "SHA256", Value: sum}}
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: name,
		// It only has to be unique, and is no address.
		DocumentNamespace: "https://spdx.org/spdxdocs/" + name + "-" + sum,
		CreationInfo:      creationInfo{Created: created.UTC().Format(time.RFC3339), Creators: []string{"Tool: " + path.Join(info.Main.Path, "test/release/sbom")}},
		Packages:          []component{binary},
		Relationships:     []relationship{{Element: "SPDXRef-DOCUMENT", Type: "DESCRIBES", Related: self}},
	}
	parts := append([]*debug.Module{{Path: "stdlib", Version: info.GoVersion[len("go"):]}}, info.Deps...)
	for i, m := range parts {
		if m.Replace != nil {
			m = m.Replace
		}
		id := "SPDXRef-module-" + strconv.Itoa(i)
		d.Packages = append(d.Packages, module(id, m.Path, m.Version))
		d.Relationships = append(d.Relationships, relationship{Element: self, Type: "DEPENDS_ON", Related: id})
	}
	return d
}

func module(id, path, version string) component {
	const unknown = "NOASSERTION"
	return component{
		SPDXID: id, Name: path, VersionInfo: version,
		DownloadLocation: unknown, LicenseConcluded: unknown, LicenseDeclared: unknown, CopyrightText: unknown,
		ExternalRefs: []externalRef{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: "pkg:golang/" + path + "@" + version}},
	}
}
