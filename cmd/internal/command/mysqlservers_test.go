//go:build linux

package command

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/allstores"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// mysqlServer answers each connection by f, after it has greeted the client.
func mysqlServer(t *testing.T, greeting []byte, f func(net.Conn)) (addr string) {
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
				if _, err := c.Write(greeting); err == nil {
					f(c)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func mysqlPacket(number byte, body string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))|uint32(number)<<24), body...)
}

// mysqlGreeting offers a plugin for passwords, and no encryption.
func mysqlGreeting(plugin string) []byte {
	const capabilities = 1 | 1<<9 | 1<<15 | 1<<19 // long passwords, protocol 4.1, secure connection, plugins
	flags := binary.LittleEndian.AppendUint32(nil, capabilities)
	return mysqlPacket(0, "\x0a8.0.36\x00\x01\x00\x00\x00saltsalt\x00"+string(flags[:2])+"\x2d\x02\x00"+string(flags[2:])+"\x15"+strings.Repeat("\x00", 10)+"saltsaltsalt\x00"+plugin+"\x00")
}

func mysqlError(number byte, code uint16, text string) []byte {
	return mysqlPacket(number, "\xff"+string(binary.LittleEndian.AppendUint16(nil, code))+"#28000"+text)
}

// A server that claims to be MySQL gets neither this machine's memory nor its terminal. A server of another
// kind is named as such.
func TestHostileMySQL(t *testing.T) {
	const memory = 64 << 20
	t.Setenv("HOME", t.TempDir())
	t.Setenv("MYSQL_PWD", password)
	reads := func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }
	for what, c := range map[string]struct {
		greeting []byte
		answer   func(net.Conn)
		status   int
		words    string
	}{
		"endless": {mysqlGreeting("mysql_native_password"), func(c net.Conn) {
			reads(c)
			_, _ = c.Write(mysqlPacket(2, "\x00\x00\x00\x02\x00\x00\x00")) // welcome
			for reads(c); ; {
				for number := range 256 {
					if _, err := c.Write(append([]byte{0xff, 0xff, 0xff, byte(number + 1)}, make([]byte, 1<<24-1)...)); err != nil {
						return
					}
				}
			}
		}, 69, ""},
		"controls": {mysqlGreeting("mysql_native_password"), func(c net.Conn) {
			reads(c)
			_, _ = c.Write(mysqlError(2, 1045, "evil\x1b[31m\r\nholdfast: fake\u202e\u009b"+strings.Repeat("x", 500_000)))
		}, 77, "no access for the user"},
		"web":       {[]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), func(net.Conn) {}, 78, "does not speak the protocol of MySQL"},
		"mail":      {[]byte("220 mail ESMTP\r\n"), reads, 78, "does not speak the protocol of MySQL"},
		"Redis":     {[]byte("-ERR unknown command\r\n"), reads, 78, "does not speak the protocol of MySQL"},
		"no answer": {nil, func(c net.Conn) { reads(c); time.Sleep(time.Minute) }, 69, "did not answer within"},
		"cut":       {mysqlGreeting("mysql_native_password"), reads, 69, ""},
	} {
		t.Run(what, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var said bytes.Buffer
			status := execute([]string{"--store", "mysql://" + mysqlServer(t, c.greeting, c.answer) + "/db", "ls"}, strings.NewReader(""), &said, &said)
			runtime.ReadMemStats(&after)
			out := said.String()
			if status != c.status || len(out) > 2000 || strings.ContainsAny(strings.ReplaceAll(strings.TrimSuffix(out, "\n"), "\n  ", "; "), "\n\r\x1b\u202e\u009b") || strings.Contains(out, password) || !strings.Contains(out, c.words) {
				t.Errorf("got %d, %d bytes: %.500q", status, len(out), out)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > memory {
				t.Errorf("it took %d bytes", used)
			}
		})
	}
}

// What a server makes of the password that it was sent, or of what proves it, is in no message.
func TestMySQLThatAltersSecrets(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("MYSQL_PWD", password)
	for how, alter := range map[string]func(string) string{
		"as it is":    func(s string) string { return s },
		"upper case":  strings.ToUpper,
		"Base64":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"hexadecimal": func(s string) string { return hex.EncodeToString([]byte(s)) },
		"its end":     func(s string) string { return s[len(s)-10:] },
	} {
		for _, plugin := range []string{"mysql_native_password", "caching_sha2_password"} {
			var repeated atomic.Value
			addr := mysqlServer(t, mysqlGreeting(plugin), func(c net.Conn) {
				b := make([]byte, 4096)
				n, err := c.Read(b)
				if err != nil || n < 50 {
					return
				}
				_, proof, _ := strings.Cut(string(b[36:n]), "\x00") // after the user
				proof, _, _ = strings.Cut(proof, plugin)
				repeated.Store(alter(proof))
				_, _ = c.Write(mysqlError(2, 1045, "not you, "+alter(proof)+alter(password)))
			})
			for _, command := range [][]string{
				{"--store", "mysql://" + addr + "/db?user=nobody", "ls"},
				{"item", "ls", "--table", "mysql://" + addr + "/db?table=t&user=nobody", "--bucket", "file:" + t.TempDir()},
			} {
				var said bytes.Buffer
				execute(command, strings.NewReader(""), &said, &said)
				text, _ := repeated.Swap("").(string)
				if out := said.String(); len(text) < 10 || strings.Contains(out, text) || strings.Contains(out, alter(password)) || strings.Contains(out, password[3:11]) || !strings.Contains(out, "with this password") {
					t.Errorf("%s, %s, %s: the server repeated %q, and the command says %q", plugin, how, command[0], text, out)
				}
			}
		}
	}
}

// The command warns before a password may go to another machine unencrypted.
func TestMySQLPasswordInTheClear(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, c := range []struct {
		address, password string
		warned            bool
	}{
		{"192.0.2.1/db", password, true},
		{"db.example.com/db", password, true},
		{"db.example.com/db?sslmode=disable", password, true},
		{"db.example.com/db?sslmode=prefer", password, true},
		{"db.example.com/db?sslmode=require", password, false},
		{"db.example.com/db?sslmode=verify-full", password, false},
		{"db.example.com/db", "", false},
		{"127.0.0.1/db", password, false},
		{"[::1]/db", password, false},
		{"localhost/db", password, false},
		{"db.example.com/db?socket=/run/mysqld/mysqld.sock", password, false},
	} {
		t.Setenv("MYSQL_PWD", c.password)
		var told bytes.Buffer
		a := &app{Invocation: cmdline.Invocation{Access: stores.Access{Drivers: allstores.Drivers(), Printer: output.Printer{Stderr: &told}}}}
		st, err := a.OpenURL(t.Context(), "mysql://"+c.address)
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

// The user and the password come from the option file, and other users must not be able to read it. The
// variable MYSQL_PWD goes before the file, and the URL's user before the user of the file.
func TestMySQLOptionFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file := filepath.Join(home, ".my.cnf")
	var sent atomic.Value
	addr := mysqlServer(t, mysqlGreeting("mysql_native_password"), func(c net.Conn) {
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if err == nil && n > 36 {
			sent.Store(string(b[36:n]))
		}
		_, _ = c.Write(mysqlError(2, 1045, "no"))
	})
	try := func(parameters string) (out, user string, status int) {
		sent.Store("")
		var said bytes.Buffer
		status = execute([]string{"--store", "mysql://" + addr + "/db" + parameters, "ls"}, strings.NewReader(""), &said, &said)
		user, _, _ = strings.Cut(sent.Load().(string), "\x00")
		return said.String(), user, status
	}
	text := "[mysqld]\nuser=other\npassword=other\n# a comment\n[client]\nuser = \"ada\"\npassword='" + password + "'\n[mysql]\nuser=none\n"
	for _, c := range []struct {
		mode               os.FileMode
		variable, url      string
		status             int
		words, user, never string
	}{
		{0o600, "", "", 77, "with this password", "ada", password},
		{0o400, "", "?user=eve", 77, "with this password", "eve", password},
		{0o644, "", "", 78, "chmod 600", "", password},
		{0o620, "", "", 78, "chmod 600", "", password},
	} {
		_ = os.Remove(file)
		if err := os.WriteFile(file, []byte(text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		out, user, status := try(c.url)
		if status != c.status || !strings.Contains(out, c.words) || user != c.user || strings.Contains(out, c.never) {
			t.Errorf("mode %o, %s: status %d, user %q, %s", c.mode, c.url, status, user, out)
		}
	}
	// Without a password in it, the file is no secret.
	if err := os.WriteFile(file, []byte("[client]\nuser=ada\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, user, _ := try(""); user != "ada" || !strings.Contains(out, "without a password") {
		t.Errorf("without a password: user %q, %s", user, out)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, _, status := try(""); status != 78 || !strings.Contains(out, "not an ordinary file") {
		t.Errorf("a directory: status %d, %s", status, out)
	}
}
