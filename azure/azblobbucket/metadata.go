package azblobbucket

import (
	"cmp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/holdfast-go/holdfast/object"
)

// encodeName writes a name of metadata as a C# identifier; see the package comment.
func encodeName(name string) string {
	var b strings.Builder
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		b.WriteString("_1")
	}
	for i, c := range []byte(name) {
		rest := name[i+1:]
		switch {
		case c == '-':
			b.WriteString("_0")
		case c == '_' && (strings.HasPrefix(rest, "0") || strings.HasPrefix(rest, "2") || i == 0 && strings.HasPrefix(rest, "1")):
			b.WriteString("_2")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

var decoder = strings.NewReplacer("_0", "-", "_2", "_")

// decodeName is the inverse of encodeName. Names of other programs remain as they are. Go's HTTP client
// changes the case of the name of a header.
func decodeName(name string) string {
	name = strings.ToLower(name)
	if decoded := decoder.Replace(strings.TrimPrefix(name, "_1")); encodeName(decoded) == name {
		return decoded
	}
	return name
}

func encodeMetadata(metadata map[string]string) map[string]*string {
	encoded := make(map[string]*string, len(metadata))
	for name, value := range metadata {
		encoded[encodeName(name)] = &value
	}
	return encoded
}

func decodeMetadata(metadata map[string]*string) map[string]string {
	decoded := make(map[string]string, len(metadata))
	for name, value := range metadata {
		decoded[decodeName(name)] = str(value)
	}
	return decoded
}

func str[T ~string](p *T) string { return string(value(p)) }

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// strOrNil returns nil for an empty text, which a header must not have.
func strOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// httpHeaders returns what the service stores with a body. The MD5 can be nil.
func httpHeaders(contentType string, h object.Headers, md5 []byte) *blob.HTTPHeaders {
	contentType = cmp.Or(contentType, "application/octet-stream")
	return &blob.HTTPHeaders{
		BlobContentType: &contentType, BlobContentMD5: md5,
		BlobCacheControl: strOrNil(h.CacheControl), BlobContentDisposition: strOrNil(h.ContentDisposition),
		BlobContentEncoding: strOrNil(h.ContentEncoding), BlobContentLanguage: strOrNil(h.ContentLanguage),
	}
}
