package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// playwrightVersion is the version of playwright-core. The file browser/package-lock.json pins it, and the accessibility
// checker axe-core.
const playwrightVersion = "1.52.0"

// browserDir returns the directory into which npm has installed playwright-core and axe-core.
func browserDir(ctx context.Context) (string, error) {
	return npmDir(ctx, "browser", "playwright-core-"+playwrightVersion, "playwright-core "+playwrightVersion+" from npm (once; 12 MB)")
}

// Browser is Chromium without a window. Its pages have no common state. Any number of goroutines may use it.
type Browser struct {
	mu      sync.Mutex
	input   io.WriteCloser
	answers *json.Decoder
	pages   int
}

// NewBrowser starts Chromium of the system. When the test ends, it ends Chromium.
func NewBrowser(t testing.TB) *Browser {
	t.Helper()
	return get(t, "Chromium", func(ctx context.Context) (*Browser, error) {
		dir, err := browserDir(ctx)
		if err != nil {
			return nil, err
		}
		node, err := lookPath("node")
		if err != nil {
			return nil, err
		}
		chromium, err := lookPath("chromium")
		if err != nil {
			return nil, err
		}
		script, err := npmFiles.ReadFile("browser/browser.mjs")
		if err != nil {
			return nil, err
		}
		path := filepath.Join(t.TempDir(), "browser.mjs")
		if err := os.WriteFile(path, script, 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command(node, path, filepath.Join(dir, "node_modules"), chromium)
		cmd.Stderr = os.Stderr
		input, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		output, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			_ = input.Close() // ends the script, and Chromium
			_ = cmd.Wait()
		})
		return &Browser{input: input, answers: json.NewDecoder(bufio.NewReader(output))}, nil
	})
}

// do sends one request to the script.
func (b *Browser) do(request map[string]any, result any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := json.NewEncoder(b.input).Encode(request); err != nil {
		return err
	}
	var answer struct {
		Error  string
		Result json.RawMessage
	}
	if err := b.answers.Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%v: %s", request, answer.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// BrowserPage is a tab of a [Browser]. Its methods end the test after an error.
type BrowserPage struct {
	t  testing.TB
	b  *Browser
	id int
}

// Page opens a tab. The scheme is "light" or "dark". When the test ends, Page closes the tab. The test fails if the tab has
// violated the policy of its page, had an error in a script, or asked another host.
func (b *Browser) Page(t testing.TB, width, height int, scheme string) *BrowserPage {
	t.Helper()
	b.mu.Lock()
	b.pages++
	p := &BrowserPage{t, b, b.pages}
	b.mu.Unlock()
	p.do(map[string]any{"do": "open", "width": width, "height": height, "scheme": scheme}, nil)
	t.Cleanup(func() {
		var problems []string
		p.do(map[string]any{"do": "problems"}, &problems)
		for _, problem := range problems {
			t.Error(problem)
		}
		p.do(map[string]any{"do": "close"}, nil)
	})
	return p
}

func (p *BrowserPage) do(request map[string]any, result any) {
	p.t.Helper()
	request["page"] = p.id
	if err := p.b.do(request, result); err != nil {
		p.t.Fatal(err)
	}
}

// Goto opens an address.
func (p *BrowserPage) Goto(url string) {
	p.t.Helper()
	p.do(map[string]any{"do": "goto", "url": url}, nil)
}

// Wait waits, for at most 20 s, until an expression of JavaScript is true.
func (p *BrowserPage) Wait(expression string) {
	p.t.Helper()
	p.do(map[string]any{"do": "wait", "expression": expression}, nil)
}

// Eval evaluates an expression of JavaScript.
func (p *BrowserPage) Eval(expression string, result any) {
	p.t.Helper()
	p.do(map[string]any{"do": "eval", "expression": expression}, result)
}

// Press presses a key, such as "Tab".
func (p *BrowserPage) Press(key string) {
	p.t.Helper()
	p.do(map[string]any{"do": "press", "key": key}, nil)
}

// Type types a text.
func (p *BrowserPage) Type(text string) {
	p.t.Helper()
	p.do(map[string]any{"do": "type", "text": text}, nil)
}

// Click clicks the element of a selector.
func (p *BrowserPage) Click(selector string) {
	p.t.Helper()
	p.do(map[string]any{"do": "click", "selector": selector}, nil)
}

// Shot writes a picture of the whole page to a file.
func (p *BrowserPage) Shot(path string) {
	p.t.Helper()
	p.do(map[string]any{"do": "shot", "path": path}, nil)
}

// Accessible fails the test if the accessibility checker finds a problem that is at least moderate.
func (p *BrowserPage) Accessible() {
	p.t.Helper()
	var problems []string
	p.do(map[string]any{"do": "axe"}, &problems)
	for _, problem := range problems {
		p.t.Errorf("accessibility: %s", problem)
	}
}
