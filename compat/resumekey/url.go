package resumekey

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// BaseURL returns the canonical form of the URL of a server: scheme://host[:port]path. Scheme and
// host are in lower case, IPv6 addresses are compressed and in brackets, and dot segments are
// resolved. BaseURL removes user, query, fragment and default port. An empty path becomes "/". The
// rest of the path does not change. A path with a final slash and a path without it give different
// results.
func BaseURL(raw string) (string, error) {
	fail := func(format string, args ...any) (string, error) {
		return "", bad("the URL %q: %w", raw, fmt.Errorf(format, args...))
	}
	if !utf8.ValidString(raw) {
		return fail("it is not valid UTF-8")
	}
	for _, r := range raw {
		if r <= ' ' || r == 0x7f || r == '\\' || r == '^' {
			return fail("programs read the character %q differently, so they would compute different keys", r)
		}
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return fail("it must begin with http:// or https://")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	host, port, err := splitHost(authority[strings.LastIndex(authority, "@")+1:])
	if err != nil {
		return fail("%w", err)
	}
	if scheme == "http" && port == ":80" || scheme == "https" && port == ":443" {
		port = ""
	}
	canonical, err := canonicalPath(path)
	if err != nil {
		return fail("%w", err)
	}
	return scheme + "://" + host + port + canonical, nil
}

// splitHost returns the canonical host, and the port with its colon, or "".
func splitHost(s string) (host, port string, err error) {
	if strings.HasPrefix(s, "[") {
		end := strings.Index(s, "]")
		if end < 0 {
			return "", "", fmt.Errorf("the IPv6 address has no closing bracket")
		}
		host, err = canonicalIPv6(s[1:end])
		port = s[end+1:]
	} else {
		if i := strings.Index(s, ":"); i >= 0 {
			s, port = s[:i], s[i:]
		}
		host, err = canonicalName(s)
	}
	if err != nil || port == "" || port == ":" {
		return host, "", err
	}
	digits, ok := strings.CutPrefix(port, ":")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil {
		return "", "", fmt.Errorf("%q is not a port number", port)
	}
	return host, ":" + strconv.FormatUint(n, 10), nil
}

func canonicalName(host string) (string, error) {
	if host == "" {
		return "", fmt.Errorf("the URL has no host")
	}
	host = strings.ToLower(host)
	for _, r := range host {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
		case r > 0x7f:
			return "", fmt.Errorf("the host is not in ASCII; write it as in xn--bcher-kva.example")
		default:
			return "", fmt.Errorf("the host contains the character %q", r)
		}
	}
	// Some programs read a name whose last label is a number as an address, in unusual
	// notations.
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := labels[len(labels)-1]
	if last != "" && strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		a, err := netip.ParseAddr(host)
		if err != nil {
			return "", fmt.Errorf("the address %s must be four decimal numbers with dots between them", host)
		}
		return a.String(), nil
	}
	return host, nil
}

func canonicalIPv6(s string) (string, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return "", fmt.Errorf("%q is not an IPv6 address", s)
	}
	// netip writes mapped IPv4 addresses with dots; the canonical form has none.
	if a.Is4In6() {
		b := a.As16()
		return fmt.Sprintf("[::ffff:%x:%x]", uint16(b[12])<<8|uint16(b[13]), uint16(b[14])<<8|uint16(b[15])), nil
	}
	return "[" + a.String() + "]", nil
}

// canonicalPath resolves dot segments, and encodes characters that a path may not contain.
func canonicalPath(path string) (string, error) {
	var kept []string
	drive := ""
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		final := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case ".":
			if final {
				kept = append(kept, "")
			}
		case "..":
			if drive != "" {
				return "", fmt.Errorf("programs resolve .. after %s differently, so they would compute different keys", drive)
			}
			kept = kept[:max(len(kept)-1, 0)]
			if final {
				kept = append(kept, "")
			}
		default:
			if isDrive(segment) {
				drive = segment
			}
			kept = append(kept, encodeSegment(segment))
		}
	}
	return "/" + strings.Join(kept, "/"), nil
}

// isDrive reports whether a segment looks like a drive letter of Windows. In some programs
// a dot segment does not remove it.
func isDrive(segment string) bool {
	segment = strings.ToLower(segment)
	return len(segment) >= 2 && 'a' <= segment[0] && segment[0] <= 'z' &&
		slices.Contains([]string{":", "|", "%3a", "%7c"}, segment[1:])
}

func encodeSegment(segment string) string {
	var b strings.Builder
	for _, c := range []byte(segment) {
		if c > 0x7e || strings.IndexByte("\"<>`{}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
