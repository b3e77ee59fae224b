// Command sbom prints a software bill of materials (SPDX 2.3 as JSON) from the data that Go has recorded
// in binaries. For each binary it lists the hash, the version of Go, and the modules with their versions
// and hashes.
//
//	sbom VERSION BINARY...
//
// With "licenses" in place of the version, it prints the licences of Go and of these modules. It reads
// them from the module cache with which the binaries were built.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []part         `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// part is a binary or a module.
type part struct {
	Name             string     `json:"name"`
	SPDXID           string     `json:"SPDXID"`
	VersionInfo      string     `json:"versionInfo"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseConcluded string     `json:"licenseConcluded"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	CopyrightText    string     `json:"copyrightText"`
	Purpose          string     `json:"primaryPackagePurpose"`
	Comment          string     `json:"comment,omitempty"`
	Checksums        []checksum `json:"checksums,omitempty"`
	ExternalRefs     []external `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("usage: sbom VERSION BINARY, or sbom licenses BINARY, with any number of binaries")
	}
	version := args[0]
	if version == "licenses" {
		return printLicenses(args[1:], out)
	}
	created := time.Unix(0, 0)
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		created = time.Unix(seconds, 0)
	}
	doc := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "holdfast " + version,
		CreationInfo: creation{created.UTC().Format(time.RFC3339), []string{"Tool: holdfast-sbom"}},
	}
	modules := map[string]part{} // by id
	for _, path := range args[1:] {
		binary, err := doc.addBinary(path, version)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, m := range binary {
			modules[m.SPDXID] = m
		}
	}
	order := func(a, b part) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.VersionInfo, b.VersionInfo))
	}
	doc.Packages = append(doc.Packages, slices.SortedFunc(maps.Values(modules), order)...)
	content, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(content)
	doc.DocumentNamespace = "https://spdx.org/spdxdocs/holdfast-" + version + "-" + hex.EncodeToString(digest[:16])
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// addBinary adds a binary, and that it depends on the modules that it returns.
func (d *document) addBinary(path, version string) (modules []part, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	binary := newPart(filepath.ToSlash(path), version, "APPLICATION")
	binary.LicenseConcluded, binary.LicenseDeclared = "Apache-2.0", "Apache-2.0"
	binary.Checksums = []checksum{{"SHA256", hex.EncodeToString(sum[:])}}
	binary.ExternalRefs = purl("github.com/holdfast-go/holdfast/cmd", version)
	d.Packages = append(d.Packages, binary)
	d.Relationships = append(d.Relationships, relationship{d.SPDXID, "DESCRIBES", binary.SPDXID})

	library := newPart("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "LIBRARY")
	library.LicenseDeclared = "BSD-3-Clause"
	library.ExternalRefs = purl("stdlib", library.VersionInfo)
	modules = append(modules, library)
	for _, dep := range linked(info) {
		m := newPart(dep.Path, dep.Version, "LIBRARY")
		m.ExternalRefs = purl(dep.Path, dep.Version)
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dep.Sum, "h1:"))
		if err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("the module %s has no hash", dep.Path)
		}
		// SPDX has no word for this hash, which is not that of one file.
		m.Comment = "go.sum " + dep.Sum + " (SHA-256 of the list of the module's files: " + hex.EncodeToString(raw) + ")"
		modules = append(modules, m)
	}
	for _, m := range modules {
		d.Relationships = append(d.Relationships, relationship{binary.SPDXID, "DEPENDS_ON", m.SPDXID})
	}
	return modules, nil
}

func newPart(name, version, purpose string) part {
	digest := sha256.Sum256([]byte(name + "@" + version))
	return part{
		Name: name, SPDXID: "SPDXRef-" + hex.EncodeToString(digest[:8]), VersionInfo: version, DownloadLocation: "NOASSERTION",
		LicenseConcluded: "NOASSERTION", LicenseDeclared: "NOASSERTION", CopyrightText: "NOASSERTION", Purpose: purpose,
	}
}

func purl(module, version string) []external {
	return []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module + "@" + version}}
}
