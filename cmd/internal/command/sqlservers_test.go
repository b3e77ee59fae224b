//go:build linux

package command

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/allstores"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// postgresServer answers each connection by f, after it has refused encryption and read
// what the client begins with.
func postgresServer(t *testing.T, f func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 4096)
				n, err := c.Read(b)
				if err == nil && n == 8 { // it asks for encryption
					_, _ = c.Write([]byte("N"))
					_, err = c.Read(b)
				}
				if err == nil {
					f(c)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func postgresMessage(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// A server that claims to be PostgreSQL, which any server can be before a client has looked
// at its certificate, gets neither this machine's memory nor its terminal.
func TestHostilePostgres(t *testing.T) {
	const memory = 64 << 20
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PGPASSWORD", password)
	for what, c := range map[string]struct {
		answer func(net.Conn)
		status int
	}{
		"a message of a GiB": {func(c net.Conn) {
			_, _ = c.Write(binary.BigEndian.AppendUint32([]byte("E"), 1<<30-10))
			for part := make([]byte, 1<<20); ; {
				if _, err := c.Write(part); err != nil {
					return
				}
			}
		}, 69},
		"controls": {func(c net.Conn) {
			_, _ = c.Write(postgresMessage('E', "SFATAL\x00VFATAL\x00C28000\x00Mevil\x1b[31m\r\nholdfast: fake\u202e\u009b"+strings.Repeat("x", 500_000)+"\x00\x00"))
		}, 77},
		"notices": {func(c net.Conn) {
			for range 10_000 {
				_, _ = c.Write(postgresMessage('N', "SNOTICE\x00C00000\x00M\x1b[31m"+strings.Repeat("y", 10_000)+"\x00\x00"))
			}
		}, 69},
	} {
		t.Run(what, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var said bytes.Buffer
			status := execute([]string{"--store", "postgres://" + postgresServer(t, c.answer) + "/db", "ls"}, strings.NewReader(""), &said, &said)
			runtime.ReadMemStats(&after)
			out := said.String()
			if status != c.status || len(out) > 2000 || strings.ContainsAny(strings.ReplaceAll(strings.TrimSuffix(out, "\n"), "\n  ", "; "), "\n\r\x1b\u202e\u009b") || strings.Contains(out, password) {
				t.Errorf("got %d, %d bytes: %.500q", status, len(out), out)
			}
			// What the notices took is free again after each.
			if used := after.TotalAlloc - before.TotalAlloc; used > memory && what != "notices" {
				t.Errorf("it took %d bytes", used)
			}
		})
	}
}

// What a server makes of the password that it was sent, or of what proves it, is in no message.
func TestPostgresThatAltersSecrets(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PGPASSWORD", password)
	t.Setenv("PGUSER", "nobody")
	for request, body := range map[string]string{"the password": "\x00\x00\x00\x03", "a hash": "\x00\x00\x00\x05salt"} {
		for how, alter := range map[string]func(string) string{
			"as it is":    func(s string) string { return s },
			"upper case":  strings.ToUpper,
			"in groups":   func(s string) string { return strings.Join(strings.Split(s, ""), " ") },
			"Base64":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
			"hexadecimal": func(s string) string { return hex.EncodeToString([]byte(s)) },
			"its end":     func(s string) string { return s[len(s)-10:] },
		} {
			var repeated atomic.Value
			addr := postgresServer(t, func(c net.Conn) {
				_, _ = c.Write(postgresMessage('R', body))
				b := make([]byte, 4096)
				n, err := c.Read(b)
				if err != nil || n < 6 {
					return
				}
				text := alter(string(b[5 : n-1]))
				repeated.Store(text)
				_, _ = c.Write(postgresMessage('E', "SFATAL\x00VFATAL\x00C28P01\x00Mnot you, "+text+"\x00\x00"))
			})
			for _, command := range [][]string{
				{"--store", "postgres://" + addr + "/db", "ls"},
				{"item", "ls", "--table", "postgres://" + addr + "/db?table=t", "--bucket", "file:" + t.TempDir()},
			} {
				var said bytes.Buffer
				execute(command, strings.NewReader(""), &said, &said)
				text, _ := repeated.Swap("").(string)
				if out := said.String(); text == "" || strings.Contains(out, text) || strings.Contains(out, password[3:11]) || !strings.Contains(out, "hidden") {
					t.Errorf("%s, %s, %s: the server repeated %q, and the command says %q", request, how, command[0], text, out)
				}
			}
		}
	}
}

// The command warns before a password may go to another machine unencrypted.
func TestPostgresPasswordInTheClear(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, c := range []struct {
		address, password string
		warned            bool
	}{
		{"192.0.2.1/db", password, true},
		{"db.example.com/db", password, true},
		{"db.example.com/db?sslmode=disable", password, true},
		{"db.example.com/db?sslmode=allow", password, true},
		{"db.example.com/db?sslmode=require", password, false},
		{"db.example.com/db?sslmode=verify-full", password, false},
		{"127.0.0.1,192.0.2.1/db", password, true},
		{"db.example.com/db", "", false},
		{"127.0.0.1/db", password, false},
		{"[::1]/db", password, false},
		{"localhost/db", password, false},
		{"/db?host=/run/postgresql", password, false},
		{"/db?host=192.0.2.1", password, true},
	} {
		t.Setenv("PGPASSWORD", c.password)
		var told bytes.Buffer
		a := &app{Invocation: cmdline.Invocation{Access: stores.Access{Drivers: allstores.Drivers(), Printer: output.Printer{Stderr: &told}}}}
		st, err := a.OpenURL(t.Context(), "postgres://"+c.address)
		if err != nil {
			t.Errorf("%s: %v", c.address, err)
			continue
		}
		st.Close()
		if warned := strings.Contains(told.String(), "unencrypted"); warned != c.warned || strings.Contains(told.String(), password) {
			t.Errorf("%s: told %q, want a warning: %v", c.address, told.String(), c.warned)
		}
	}
}
