package object

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

// MaxKey is the longest key of an object, in bytes.
const MaxKey = 1024

// CheckKey returns an error if key cannot name an object. The error matches [store.ErrKey]. A key
// is valid UTF-8, is not empty, and has at most [MaxKey] bytes. Some stores also refuse several
// slashes in a row, and the segments "." and "..".
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: the key is empty", store.ErrKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: the key has %d bytes; at most %d are allowed", store.ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: the key %q is not valid UTF-8", store.ErrKey, key)
	}
	return nil
}

// CheckMetadata returns an error that matches [ErrInvalid] if some buckets cannot store the
// metadata. Names consist of lower-case letters, digits, hyphens and underscores. Values consist of
// printable ASCII without a space at either end.
func CheckMetadata(metadata map[string]string) error {
	size := 0
	for name, value := range metadata {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return fmt.Errorf("%w: the metadata name %q is not valid: use lower-case letters, digits, hyphens and underscores", ErrInvalid, name)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(value) != value {
			return fmt.Errorf("%w: the value of metadata %q is not valid: use printable ASCII without a space at either end", ErrInvalid, name)
		}
		size += len(name) + len(value)
	}
	if size > MaxMetadata {
		return fmt.Errorf("%w: the metadata has %d bytes; at most %d are allowed", ErrInvalid, size, MaxMetadata)
	}
	return nil
}

// checkHeaders reports why headers cannot be kept by every bucket; the error matches
// [ErrInvalid].
func checkHeaders(h Headers) error {
	size := 0
	for name, value := range map[string]string{
		"cache control": h.CacheControl, "content disposition": h.ContentDisposition,
		"content encoding": h.ContentEncoding, "content language": h.ContentLanguage,
	} {
		if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) || strings.TrimSpace(value) != value {
			return fmt.Errorf("%w: the %s %.100q is not valid: use text without control characters, and without a space at either end", ErrInvalid, name, value)
		}
		size += len(value)
	}
	if size > maxHeaders {
		return fmt.Errorf("%w: the headers have %d bytes; at most %d are allowed", ErrInvalid, size, maxHeaders)
	}
	return nil
}

// The bounds of tags, the same as on S3. MaxTagName and MaxTagValue are numbers of characters.
const (
	MaxTags     = 10
	MaxTagName  = 128
	MaxTagValue = 256
)

// checkTags reports why tags cannot be kept by every bucket that has tags; the error
// matches [ErrInvalid]. Names and values consist of letters, digits, spaces and + - = . _
// : / @; names are not empty, and do not begin with "aws:".
func checkTags(tags map[string]string) error {
	if len(tags) > MaxTags {
		return fmt.Errorf("%w: there are %d tags; at most %d are allowed", ErrInvalid, len(tags), MaxTags)
	}
	bad := func(text string, limit int) bool {
		return !utf8.ValidString(text) || utf8.RuneCountInString(text) > limit || strings.ContainsFunc(text, func(r rune) bool {
			return !unicode.In(r, unicode.L, unicode.N, unicode.Z) && !strings.ContainsRune("+-=._:/@", r)
		})
	}
	for name, value := range tags {
		if name == "" || bad(name, MaxTagName) || len(name) >= 4 && strings.EqualFold(name[:4], "aws:") {
			return fmt.Errorf("%w: the tag name %.200q is not valid: use 1 to 128 letters, digits, spaces and + - = . _ : / @; it must not begin with \"aws:\"", ErrInvalid, name)
		}
		if bad(value, MaxTagValue) {
			return fmt.Errorf("%w: the value of the tag %q, %.300q, is not valid: use at most 256 letters, digits, spaces and + - = . _ : / @", ErrInvalid, name, value)
		}
	}
	return nil
}

// CheckGet returns a copy of the options, or an error if the arguments of a Get are not valid.
// Every method of a Bucket first calls the Check function for its arguments.
func CheckGet(key string, opts *GetOptions) (GetOptions, error) {
	if err := CheckKey(key); err != nil || opts == nil {
		return GetOptions{}, err
	}
	switch {
	case opts.Offset < 0 || opts.Length < 0:
		return GetOptions{}, fmt.Errorf("%w: GetOptions has a negative Offset or Length", ErrInvalid)
	case opts.IfMatch != "" && opts.IfChanged != "":
		return GetOptions{}, fmt.Errorf("%w: GetOptions has both IfMatch and IfChanged; give one", ErrInvalid)
	}
	return *opts, nil
}

// CheckPut returns a copy of the options, or an error if the arguments of a Put are not valid. The
// last arguments are the abilities that the bucket has, among [StorageClass] and [Tags].
func CheckPut(key string, opts *PutOptions, has ...Ability) (PutOptions, error) {
	if err := CheckKey(key); err != nil || opts == nil {
		return PutOptions{}, err
	}
	if opts.IfAbsent && opts.IfMatch != "" {
		return PutOptions{}, fmt.Errorf("%w: the options have both IfAbsent and IfMatch; give one", ErrInvalid)
	}
	if opts.Length < 0 {
		return PutOptions{}, fmt.Errorf("%w: PutOptions.Length is negative", ErrInvalid)
	}
	if len(opts.StorageClass) > maxStorageClass || strings.Trim(opts.StorageClass, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return PutOptions{}, fmt.Errorf("%w: the storage class %.100q is not valid: use at most 64 letters, digits, hyphens and underscores", ErrInvalid, opts.StorageClass)
	}
	if err := checkTags(opts.Tags); err != nil {
		return PutOptions{}, err
	}
	if err := cmp.Or(CheckMetadata(opts.Metadata), checkHeaders(opts.Headers)); err != nil {
		return PutOptions{}, err
	}
	switch {
	case opts.StorageClass != "" && !slices.Contains(has, StorageClass):
		return PutOptions{}, &UnsupportedError{Ability: StorageClass}
	case len(opts.Tags) > 0 && !slices.Contains(has, Tags):
		return PutOptions{}, &UnsupportedError{Ability: Tags}
	}
	return *opts, nil
}

// maxStorageClass is the longest name of a storage class, in bytes.
const maxStorageClass = 64

// CheckDelete returns a copy of the options, or an error if the arguments of a Delete are not
// valid.
func CheckDelete(key string, opts *DeleteOptions) (DeleteOptions, error) {
	if err := CheckKey(key); err != nil || opts == nil {
		return DeleteOptions{}, err
	}
	return *opts, nil
}

// CheckCopy returns a copy of the options, or an error if the arguments of a Copy are not valid.
func CheckCopy(source, destination string, opts *CopyOptions) (CopyOptions, error) {
	if err := CheckKey(source); err != nil {
		return CopyOptions{}, err
	}
	if err := CheckKey(destination); err != nil || opts == nil {
		return CopyOptions{}, err
	}
	switch {
	case opts.IfAbsent && opts.IfMatch != "":
		return CopyOptions{}, fmt.Errorf("%w: the options have both IfAbsent and IfMatch; give one", ErrInvalid)
	case opts.Metadata == nil && (opts.ContentType != "" || opts.Headers != Headers{}):
		return CopyOptions{}, fmt.Errorf("%w: CopyOptions has ContentType or Headers, but no Metadata; a copy replaces all three together, so set all three", ErrInvalid)
	}
	return *opts, cmp.Or(CheckMetadata(opts.Metadata), checkHeaders(opts.Headers))
}
