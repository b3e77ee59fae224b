package s3bucket

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// CopyHeader is a header for servers other than Amazon's. With this header, the server copies only
// if the destination does not exist. An example is cf-copy-destination-if-none-match: * of
// Cloudflare R2. The Bucket tests whether the server obeys the header.
type CopyHeader struct {
	Name, Value string

	// Status is the HTTP status with which the server answers if the destination exists.
	Status int
}

// parseCopyHeader reads object_store's setting copy_if_not_exists where it names a header:
// header:NAME:VALUE, or header-with-status:NAME:VALUE:STATUS where the status of a refusal is
// not 412.
func parseCopyHeader(text string) (*CopyHeader, error) {
	h := &CopyHeader{Status: http.StatusPreconditionFailed}
	kind, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	if kind == "header-with-status" {
		i := max(strings.LastIndexByte(rest, ':'), 0)
		h.Status, _ = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(rest[i:], ":")))
		rest = rest[:i]
	} else if kind != "header" {
		rest = ""
	}
	name, value, _ := strings.Cut(rest, ":")
	h.Name, h.Value = strings.TrimSpace(name), strings.TrimSpace(value)
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	printable := strings.IndexFunc(h.Value, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if h.Name == "" || strings.Trim(h.Name, letters) != "" || h.Value == "" || !printable || h.Status < 400 || h.Status > 499 {
		return nil, errors.New("it must be header:NAME:VALUE, or header-with-status:NAME:VALUE:STATUS with a STATUS from 400 to 499")
	}
	return h, nil
}

// apply makes a request of a copy conditional.
func (h *CopyHeader) apply(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue(h.Name, h.Value))
}
