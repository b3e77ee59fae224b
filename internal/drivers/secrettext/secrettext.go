// Package secrettext removes the secrets of a request from a text that its server sent.
package secrettext

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// MinLength is the smallest length of a secret, and of a part of a secret that [Hide] finds in a text.
const MinLength = 8

// Hide removes secrets from a text. If the text repeats a part of a secret in another form, such as
// Base64, Hide replaces the whole text. It does not know where the secret ends.
func Hide(text string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) < MinLength {
			continue
		}
		text = hide(text, secret)
		if repeats(text, secret) {
			return "(hidden: it repeats a secret of the request)"
		}
	}
	return text
}

// Shorten returns at most the first max bytes of a text, with an ellipsis if that is not the whole text.
func Shorten(text string, max int) string {
	if len(text) > max {
		text = strings.ToValidUTF8(text[:max], "") + "..."
	}
	return text
}

// hide takes a secret out of a text, and what is left of it where it was cut off.
func hide(text, secret string) string {
	var out strings.Builder
	for {
		i := strings.Index(text, secret[:MinLength])
		if i < 0 {
			return out.String() + text
		}
		end := i + MinLength
		for end < len(text) && end-i < len(secret) && text[end] == secret[end-i] {
			end++
		}
		out.WriteString(text[:i] + "(hidden)")
		text = text[end:]
	}
}

// repeats reports whether a text holds a part of a secret: with any characters but letters and
// digits in between, in upper or lower case, reversed, escaped for a URL or for XML, in Base64 or
// in hexadecimal digits.
func repeats(text, secret string) bool {
	parts := map[string]bool{}
	for _, form := range []string{
		secret, hex.EncodeToString([]byte(secret)),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), // as it is, and behind one or two other bytes
		base64.RawStdEncoding.EncodeToString([]byte("\x00" + secret))[2:],
		base64.RawStdEncoding.EncodeToString([]byte("\x00\x00" + secret))[3:],
	} {
		letters := alphanumeric(form)
		for i := MinLength; i <= len(letters); i++ {
			parts[string(letters[i-MinLength:i])] = true
		}
	}
	for range 3 { // a text may have been escaped twice
		letters := alphanumeric(text)
		for range 2 {
			for i := MinLength; i <= len(letters); i++ {
				if parts[string(letters[i-MinLength:i])] {
					return true
				}
			}
			slices.Reverse(letters)
		}
		text = html.UnescapeString(escapes().ReplaceAllStringFunc(text, func(e string) string {
			b, _ := hex.DecodeString(e[1:])
			return string(b)
		}))
	}
	return false
}

// escapes are those of a URL.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("%[0-9a-fA-F]{2}") })

// alphanumeric returns the letters and digits of ASCII in a text, in lower case.
func alphanumeric(text string) []byte {
	var letters []byte
	for _, b := range []byte(strings.ToLower(text)) {
		if '0' <= b && b <= '9' || 'a' <= b && b <= 'z' {
			letters = append(letters, b)
		}
	}
	return letters
}
