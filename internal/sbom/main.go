// Command sbom prints a software bill of materials, in SPDX 2.3 as JSON, from what
// "go version -m" says of the binaries of a release.
//
//	sbom VERSION FILE...
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
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
	Packages          []module       `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type module struct {
	Name             string     `json:"name"`
	SPDXID           string     `json:"SPDXID"`
	VersionInfo      string     `json:"versionInfo"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseConcluded string     `json:"licenseConcluded"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	CopyrightText    string     `json:"copyrightText"`
	Comment          string     `json:"comment,omitempty"`
	ExternalRefs     []external `json:"externalRefs"`
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
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: sbom VERSION FILE")
	}
	version := args[0]
	sums := map[string]string{} // from module@version to its h1 checksum
	for _, path := range args[1:] {
		if err := read(path, sums); err != nil {
			return err
		}
	}
	created := time.Unix(0, 0)
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		created = time.Unix(seconds, 0)
	}
	const root = "SPDXRef-holdfast"
	doc := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "holdfast " + version,
		CreationInfo: creation{created.UTC().Format(time.RFC3339), []string{"Tool: holdfast-sbom"}},
		Packages: []module{{
			Name: "holdfast", SPDXID: root, VersionInfo: version, DownloadLocation: "NOASSERTION",
			LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0", CopyrightText: "NOASSERTION",
			ExternalRefs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/github.com/holdfast-go/holdfast/cmd@" + version}},
		}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root}},
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		name, v, _ := strings.Cut(id, "@")
		digest := sha256.Sum256([]byte(id))
		m := module{
			Name: name, SPDXID: "SPDXRef-" + hex.EncodeToString(digest[:8]), VersionInfo: v, DownloadLocation: "NOASSERTION",
			LicenseConcluded: "NOASSERTION", LicenseDeclared: "NOASSERTION", CopyrightText: "NOASSERTION",
			ExternalRefs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + id}},
		}
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sums[id], "h1:")); err == nil && len(raw) > 0 {
			m.Comment = "go.sum h1 (SHA-256 of the module's file list): " + hex.EncodeToString(raw)
		}
		doc.Packages = append(doc.Packages, m)
		doc.Relationships = append(doc.Relationships, relationship{root, "DEPENDS_ON", m.SPDXID})
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	content, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(content)
	doc.DocumentNamespace = "https://spdx.org/spdxdocs/holdfast-" + version + "-" + hex.EncodeToString(digest[:16])
	return enc.Encode(doc)
}

// read collects the dep lines of "go version -m".
func read(path string, sums map[string]string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[0] != "dep" || strings.HasPrefix(fields[1], "github.com/holdfast-go/") {
			continue
		}
		sum := ""
		if len(fields) > 3 {
			sum = fields[3]
		}
		sums[fields[1]+"@"+fields[2]] = sum
	}
	return nil
}
