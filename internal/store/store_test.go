package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// runnerEnv makes the test binary a process that creates a drive and holds it until its standard input ends.
const runnerEnv = "NOHUDDLE_STORE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(runnerEnv); dir != "" {
		os.Exit(hold(dir))
	}
	os.Exit(m.Run())
}

func hold(dir string) int {
	s, err := Open(dir)
	if err == nil {
		_, err = s.Create(drive("held", v1alpha1.DriveRunning))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("holds")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

func drive(name string, phase v1alpha1.DrivePhase) *v1alpha1.Drive {
	d := &v1alpha1.Drive{}
	d.Name, d.Status.Phase = name, phase
	d.CreationTimestamp = metav1.NewTime(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC))
	return d
}

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s *Store, d *v1alpha1.Drive) *Entry {
	t.Helper()
	e, err := s.Create(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestDefaultFolder(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	t.Setenv("HOME", "/home/me")
	for _, c := range []struct{ set, dir, want string }{
		{"/state", "", "/state/nohuddle/drives/a"},
		{"", "", "/home/me/.local/state/nohuddle/drives/a"},
		{"/state", "/other", "/other/drives/a"},
	} {
		t.Setenv("XDG_STATE_HOME", c.set)
		s, err := Open(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Dir("a"); got != c.want {
			t.Errorf("XDG_STATE_HOME=%q, --state-dir=%q: %s, want %s", c.set, c.dir, got, c.want)
		}
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	if _, err := Open(""); err == nil || !strings.Contains(err.Error(), "set XDG_STATE_HOME or HOME") {
		t.Errorf("without a home the error is %v", err)
	}
}

func TestCreateSaveGet(t *testing.T) {
	s := open(t)
	d := drive("a", v1alpha1.DriveRunning)
	e := create(t, s, d)
	d.Status.Message = "half way"
	if err := e.Save(d); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get("a")
	if err != nil || got.Status.Phase != v1alpha1.DriveRunning || got.Status.Message != "half way" {
		t.Errorf("%v, %v", got, err)
	}
	if names := below(t, e.Dir); !slices.Equal(names, []string{"drive.json", "lock"}) {
		t.Errorf("the folder holds %q", names)
	}
	if names := below(t, filepath.Dir(e.Dir)); !slices.Equal(names, []string{"a"}) {
		t.Errorf("the store holds %q", names)
	}
	if info, err := os.Stat(e.Dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v: plays of any user must get through the folder", info.Mode(), err)
	}
}

func below(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestNameIsTakenUntilTheDriveIsRemoved(t *testing.T) {
	s := open(t)
	e := create(t, s, drive("a", v1alpha1.DriveSucceeded))
	taken := func() {
		t.Helper()
		_, err := s.Create(drive("a", ""))
		if _, ok := errors.AsType[*TakenError](err); !ok {
			t.Errorf("a second drive of the name: %v", err)
		}
	}
	taken()
	if err := s.Remove("a"); !errors.Is(err, ErrRunning) {
		t.Errorf("removing a drive that runs: %v", err)
	}
	e.Close()
	taken()
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	create(t, s, drive("a", ""))
}

func TestOneOfManyGetsTheName(t *testing.T) {
	s := open(t)
	var got atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			e, err := s.Create(drive("a", ""))
			if err == nil {
				got.Add(1)
				defer e.Close()
			} else if _, ok := errors.AsType[*TakenError](err); !ok {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 {
		t.Errorf("%d have created the drive", got.Load())
	}
	if names := below(t, filepath.Dir(s.Dir("a"))); !slices.Equal(names, []string{"a"}) {
		t.Errorf("the store holds %q", names)
	}
}

// What users type must not lead out of the store.
func TestNamesStayInside(t *testing.T) {
	s := open(t)
	create(t, s, drive("a", v1alpha1.DriveSucceeded)).Close()
	for _, name := range []string{"", ".", "..", "a/..", "../drives/a", "/", "a/b", ".new-1", "nobody"} {
		if _, err := s.Get(name); !isNotFound(err) {
			t.Errorf("get %q: %v", name, err)
		}
		if err := s.Remove(name); !isNotFound(err) {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	if _, err := s.Get("a"); err != nil {
		t.Error(err)
	}
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[*NotFoundError](err)
	return ok
}

func TestKilledDriveHasFailed(t *testing.T) {
	s := open(t)
	d := drive("a", v1alpha1.DriveRunning)
	d.Status.Plays = []v1alpha1.PlayStatus{{Name: "p", Phase: v1alpha1.PlayRunning}, {Name: "q", Phase: v1alpha1.PlayPending}}
	e := create(t, s, d)
	if !s.Running("a") {
		t.Error("a drive that is locked does not run")
	}
	e.Close()
	got, err := s.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	st := got.Status
	if st.Phase != v1alpha1.DriveFailed || st.Reason != "Killed" || st.FinishedAt == nil || st.Message == "" {
		t.Errorf("the drive is %+v", st)
	}
	if st.Plays[0].Phase != v1alpha1.PlayFailed || st.Plays[1].Phase != v1alpha1.PlaySkipped {
		t.Errorf("its plays are %+v", st.Plays)
	}
	ended := drive("b", v1alpha1.DriveCancelled)
	create(t, s, ended).Close()
	if got, err := s.Get("b"); err != nil || got.Status.Phase != v1alpha1.DriveCancelled {
		t.Errorf("%v, %v", got, err)
	}
}

func TestListIsNewestFirstAndNamesTheUnreadable(t *testing.T) {
	s := open(t)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("an empty store: %v, %v", all, err)
	}
	for i, name := range []string{"old", "newest", "newer"} {
		d := drive(name, v1alpha1.DriveSucceeded)
		d.CreationTimestamp = metav1.NewTime(d.CreationTimestamp.Add(time.Duration([]int{0, 2, 1}[i]) * time.Hour))
		create(t, s, d).Close()
	}
	create(t, s, drive("broken", "")).Close()
	if err := os.WriteFile(filepath.Join(s.Dir("broken"), "drive.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"newest", "newer", "old"}) {
		t.Errorf("the drives are %q", names)
	}
	if err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "nohuddle prune broken") {
		t.Errorf("the error is %v", err)
	}
	if err := s.Remove("broken"); err != nil {
		t.Error(err)
	}
}

// Two processes: the lock of one is what the other goes by, and it goes with the process.
func TestAnotherProcessRunsTheDrive(t *testing.T) {
	s := open(t)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), runnerEnv+"="+s.dir)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holds\n" {
		t.Fatalf("%q, %v", line, err)
	}
	create(t, s, drive("mine", v1alpha1.DriveRunning)).Close()
	if got, err := s.Get("held"); err != nil || got.Status.Phase != v1alpha1.DriveRunning {
		t.Errorf("%v, %v", got, err)
	}
	if err := s.Remove("held"); !errors.Is(err, ErrRunning) {
		t.Errorf("removing it: %v", err)
	}
	if got := abandoned(t, s); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("abandoned are %q", got)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if got, err := s.Get("held"); err != nil || got.Status.Reason != "Killed" {
		t.Errorf("%v, %v", got, err)
	}
	if got := abandoned(t, s); !slices.Equal(got, []string{"held", "mine"}) {
		t.Errorf("abandoned are %q", got)
	}
	if err := s.Remove("held"); err != nil {
		t.Error(err)
	}
}

// abandoned are the names of the drives that nobody runs; nobody can take them while they are looked at.
func abandoned(t *testing.T, s *Store) []string {
	t.Helper()
	var names []string
	err := s.Abandoned(func(name, dir string) error {
		names = append(names, name)
		if f, err := tryLock(dir); !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			t.Errorf("%s can be taken: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestAbandonedSweepsKilledCreations(t *testing.T) {
	s := open(t)
	create(t, s, drive("a", "")).Close()
	old, fresh := s.Dir(newPrefix+"1"), s.Dir(newPrefix+"2")
	for _, dir := range []string{old, fresh} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*creationTime)); err != nil {
		t.Fatal(err)
	}
	abandoned(t, s)
	if names := below(t, filepath.Dir(old)); !slices.Equal(names, []string{filepath.Base(fresh), "a"}) {
		t.Errorf("the store holds %q", names)
	}
}

func TestSaveLeavesNothingHalfWritten(t *testing.T) {
	s := open(t)
	d := drive("a", v1alpha1.DriveRunning)
	e := create(t, s, d)
	// A folder in the file's place: the rename fails.
	if err := errors.Join(os.Remove(filepath.Join(e.Dir, "drive.json")), os.MkdirAll(filepath.Join(e.Dir, "drive.json", "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := e.Save(d); err == nil || !strings.Contains(err.Error(), "save drive a") {
		t.Errorf("the error is %v", err)
	}
	if names := below(t, e.Dir); !slices.Equal(names, []string{"drive.json", "lock"}) {
		t.Errorf("the folder holds %q", names)
	}
}
