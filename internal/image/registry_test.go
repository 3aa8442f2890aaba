package image

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// wantError checks that err is an *Error of one sentence that holds all of words.
func wantError(t *testing.T, err error, reason Reason, permanent bool, words ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Reason != reason || e.Permanent() != permanent {
		t.Errorf("reason %s, permanent %t; want %s, %t: %v", e.Reason, e.Permanent(), reason, permanent, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %v", w, err)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\r\x1b") {
		t.Errorf("not one line: %q", err)
	}
}

func refuse(status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
		return true
	}
}

func TestRegistryRefuses(t *testing.T) {
	coded := func(code string) string {
		return fmt.Sprintf(`{"errors":[{"code":%q,"message":"so \u001b[31mit\nis"}]}`, code)
	}
	tests := []struct {
		status    int
		body      string
		reason    Reason
		permanent bool
		asked     int64
		words     []string
	}{
		{401, coded("UNAUTHORIZED"), Unauthorized, true, 1, []string{"401", "UNAUTHORIZED", "docker login"}},
		{403, coded("DENIED"), Forbidden, true, 1, []string{"403", "DENIED"}},
		{404, coded("MANIFEST_UNKNOWN"), NotFound, true, 1, []string{"404", "MANIFEST_UNKNOWN", "check the name"}},
		{404, "<html>\n<b>nginx", NotFound, true, 1, []string{"404 Not Found"}},
		{429, coded("TOOMANYREQUESTS"), Unreachable, false, attempts, []string{"429", "TOOMANYREQUESTS", "wait"}},
		{500, "", Unreachable, false, attempts, []string{"500"}},
		{503, "<html>", Unreachable, false, attempts, []string{"503"}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, tt.body), func(t *testing.T) {
			var asked atomic.Int64
			answer := refuse(tt.status, tt.body)
			reg := newTestRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				if answer(w, r) {
					asked.Add(1)
					return true
				}
				return false
			})
			ref := reg.push(t, "team/a:1", imageOf(t, v1.Config{}))
			s := openStore(t, Options{})
			_, err := s.Get(testContext(t), ref)
			wantError(t, err, tt.reason, tt.permanent, append(tt.words, ref, reg.host)...)
			var te *transport.Error
			if !errors.As(err, &te) || te.StatusCode != tt.status {
				t.Errorf("the registry's answer is not in the chain of %v", err)
			}
			if n := asked.Load(); n != tt.asked {
				t.Errorf("asked %d times, want %d", n, tt.asked)
			}
			nothingLeft(t, s)
		})
	}
}

func TestRegistryRecovers(t *testing.T) {
	hijack := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.(*net.TCPConn).SetLinger(0) // A reset.
			conn.Close()
		}
	}
	for what, fail := range map[string]func(http.ResponseWriter){
		"429":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"502":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"reset": hijack,
		"breaks off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100000")
			io.WriteString(w, "half")
		},
	} {
		for _, where := range []string{"/manifests/", "/blobs/"} {
			t.Run(what+where, func(t *testing.T) {
				var left atomic.Int64
				left.Store(2)
				reg := newTestRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.Contains(r.URL.Path, where) || left.Add(-1) < 0 {
						return false
					}
					fail(w)
					return true
				})
				ref := reg.push(t, "a:1", imageOf(t, v1.Config{}, layerOf(t, file("a", strings.Repeat("x", 1000)))))
				if got := content(t, get(t, openStore(t, Options{}), ref).Layers[0], "a"); len(got) != 1000 {
					t.Errorf("the file has %d bytes", len(got))
				}
			})
		}
	}
}

func TestRegistryHangs(t *testing.T) {
	for _, where := range []string{"/v2/", "/manifests/", "/blobs/", "mid-blob"} {
		t.Run(where, func(t *testing.T) {
			gone := make(chan struct{})
			t.Cleanup(func() { close(gone) })
			reg := newTestRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				if where == "mid-blob" && strings.Contains(r.URL.Path, "/blobs/") {
					w.Header().Set("Content-Length", "100000")
					io.WriteString(w, "half")
					w.(http.Flusher).Flush()
				} else if !strings.Contains(r.URL.Path, where) {
					return false
				}
				select {
				case <-r.Context().Done():
				case <-gone:
				}
				return true
			})
			ref := reg.push(t, "a:1", imageOf(t, v1.Config{}, layerOf(t, file("a", "x"))))
			s := openStore(t, Options{})
			s.idle = 200 * time.Millisecond
			_, err := s.Get(testContext(t), ref)
			wantError(t, err, Unreachable, false, reg.host, "sent nothing for 200ms")
			nothingLeft(t, s)
		})
	}
}

func TestRegistryUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close()
	_, err = openStore(t, Options{}).Get(testContext(t), host+"/a:1")
	wantError(t, err, Unreachable, false, host, "can't be reached", "connection refused")
}

func TestDockerCredentials(t *testing.T) {
	reg := newTestRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "ann" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
		return true
	})
	ref := reg.push(t, "private:1", imageOf(t, v1.Config{}, layerOf(t, file("a", "x"))))
	configured := func(t *testing.T, config string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("DOCKER_CONFIG", dir)
	}
	t.Run("good", func(t *testing.T) {
		configured(t, fmt.Sprintf(`{"auths":{%q:{"username":"ann","password":"secret"}}}`, reg.host))
		get(t, openStore(t, Options{}), ref)
	})
	t.Run("wrong", func(t *testing.T) {
		configured(t, fmt.Sprintf(`{"auths":{%q:{"username":"ann","password":"wrong"}}}`, reg.host))
		_, err := openStore(t, Options{}).Get(testContext(t), ref)
		wantError(t, err, Unauthorized, true, "401", reg.host)
		if strings.Contains(err.Error(), "wrong") {
			t.Errorf("the password is in: %v", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		configured(t, `{}`)
		_, err := openStore(t, Options{}).Get(testContext(t), ref)
		wantError(t, err, Unauthorized, true, "401", "authentication required")
	})
	t.Run("broken helper", func(t *testing.T) {
		configured(t, fmt.Sprintf(`{"credHelpers":{%q:"no-such-helper"}}`, reg.host))
		_, err := openStore(t, Options{}).Get(testContext(t), ref)
		wantError(t, err, Unauthorized, true, "credentials", "no-such-helper")
	})
}
