package shim

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

const (
	// sweepTime bounds how long what a play has left running may take to die.
	sweepTime = 10 * time.Second
	// drainTime bounds how long the last output may take to come, where somebody else holds the pipes open.
	drainTime = 2 * time.Second
)

// attempt claims and runs the attempt whose gate is open, and parks. exit says that the shim is to end with code.
func (s *Shim) attempt() (code int, exit bool) {
	a := s.have
	claim := protocol.Claim{Slot: s.ctl.slot, StartedAt: time.Now()}
	switch err := s.ctl.makeClaim(a.Token, claim); {
	case errors.Is(err, fs.ErrExist): // another slot was faster
		return 0, false
	case err != nil:
		return complain(protocol.ExitControl, a.Token+" can't be claimed: "+err.Error()), true
	}
	s.signals.forget()
	result, told := s.run(a, claim)
	err := s.ctl.writeResult(result)
	if err != nil {
		warn(err.Error())
	}
	switch {
	case told:
		return protocol.ExitTerm, true
	case err != nil:
		return protocol.ExitControl, true
	}
	return 0, false
}

// run executes a claimed attempt and returns how it ended. told says that the shim was told to end meanwhile.
func (s *Shim) run(a protocol.Assignment, claim protocol.Claim) (result protocol.Result, told bool) {
	result = protocol.Result{Token: a.Token, StartedAt: claim.StartedAt}
	log := openLog(s.ctl.path(protocol.LogFile(a.Token)), a.LogLimit)
	for _, name := range s.short(a) {
		log.write([]byte("nohuddle: the value of " + name + " has fewer than " + strconv.Itoa(minSecret) + " bytes and is not masked\n"))
	}
	kills := OOMKills("")
	cmd, refused := s.prepare(a)
	var p *process
	if refused == nil {
		p, refused = s.start(cmd, log)
	}
	mask := newMasker(s.secrets)
	if refused != nil {
		refused.message = mask.text(refused.message)
		warn(refused.message)
		log.write([]byte("nohuddle: " + refused.message + "\n"))
		log.close()
		result.ExitCode, result.Reason, result.Message, result.FinishedAt = refused.code, refused.reason, refused.message, time.Now()
		return result, false
	}
	p.grace = time.Duration(a.GraceMillis) * time.Millisecond
	status := s.supervise(a, p)
	result.FinishedAt = time.Now()
	killDescendants(result.FinishedAt.Add(sweepTime))
	p.drain()
	result.LogDropped = log.close()
	result.PeakMemory = PeakMemory("")
	result.Reason, result.Message = p.reason, p.message
	result.ExitCode = status.ExitStatus()
	if status.Signaled() {
		result.ExitCode = 128 + int(status.Signal())
	}
	// A shell whose command was killed ends with a code of its own.
	if result.Reason == "" && result.ExitCode != 0 && OOMKills("") > kills {
		result.Reason, result.Message = protocol.OOMKilled, "the kernel killed a process of it: the container was out of memory"
	}
	outputs, err := readOutputs(s.ctl.path(protocol.OutputFile(a.Token)))
	switch {
	case err == nil:
		for k, v := range outputs { // they become part of the drive's status
			outputs[k] = mask.text(v)
		}
		result.Outputs = outputs
	case result.Succeeded():
		result.Reason, result.Message = protocol.BadOutput, mask.text(err.Error())
	}
	return result, p.told
}

// process is an attempt's first process.
type process struct {
	pid     int
	grace   time.Duration
	outputs [2]*os.File // read ends
	copies  sync.WaitGroup

	// reason and message say why the process is being stopped; the first reason stays.
	reason  protocol.Reason
	message string
	kill    <-chan time.Time
	told    bool // the shim was told to end
}

// start executes the command in a process group of its own.
func (s *Shim) start(c *command, log *logFile) (*process, *refusal) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, refuse(exitNotExecutable, "%v", err)
	}
	defer null.Close()
	p := &process{}
	files := []uintptr{null.Fd()}
	var ends [2]*os.File
	for i := range ends {
		if p.outputs[i], ends[i], err = os.Pipe(); err != nil {
			return nil, refuse(exitNotExecutable, "a pipe can't be had: %v", err)
		}
		files = append(files, ends[i].Fd())
	}
	attr := &syscall.ProcAttr{Dir: c.dir, Env: c.env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}
	p.pid, err = syscall.ForkExec(c.path, c.argv, attr)
	for i, to := range []*os.File{os.Stdout, os.Stderr} {
		_ = ends[i].Close()
		if err != nil {
			_ = p.outputs[i].Close()
			continue
		}
		p.copies.Add(1)
		go stream(p.outputs[i], to, log, newMasker(s.secrets), &p.copies)
	}
	if err != nil {
		return nil, c.explain(err)
	}
	return p, nil
}

// supervise returns when the attempt's first process has ended; until then it forwards signals and stops the process
// when its time is over or somebody asks for it.
func (s *Shim) supervise(a protocol.Assignment, p *process) syscall.WaitStatus {
	var timeout <-chan time.Time
	if a.TimeoutMillis > 0 {
		timer := time.NewTimer(time.Duration(a.TimeoutMillis) * time.Millisecond)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		// First, because a signal may have come before anybody listened.
		if status, ended := p.reap(); ended {
			return status
		}
		select {
		case <-s.signals.child:
		case <-s.signals.end:
			p.told = true
			p.stop(protocol.Interrupted, "the slot was told to end while the attempt ran")
		case sig := <-s.signals.other:
			p.signal(sig.(syscall.Signal))
		case <-s.changes:
			if next, err := readAssignment(s.file, a.Seq); err == nil && next.Token == a.Token && next.Stop {
				p.stop(protocol.Stopped, "stopped, because the drive was cancelled")
			}
		case <-timeout:
			d := time.Duration(a.TimeoutMillis) * time.Millisecond
			p.stop(protocol.Timeout, "it ran for longer than its timeout of "+d.String())
		case <-p.kill:
			p.message += "; it did not end within its grace period of " + strconv.FormatFloat(p.grace.Seconds(), 'f', -1, 64) + "s and was killed"
			p.signal(syscall.SIGKILL)
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have left its group
		}
	}
}

// reap collects whatever has ended, orphans too; ended says that the attempt's first process is among it.
func (p *process) reap() (status syscall.WaitStatus, ended bool) {
	for {
		var st unix.WaitStatus
		pid, err := unix.Wait4(-1, &st, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case pid <= 0:
			return status, ended
		case pid == p.pid:
			status, ended = syscall.WaitStatus(st), true
		}
	}
}

// stop asks the attempt to end, and has it killed after its grace period. The first to ask gives the reason.
func (p *process) stop(reason protocol.Reason, message string) {
	if p.reason != "" {
		return
	}
	p.reason, p.message = reason, message
	p.signal(syscall.SIGTERM)
	p.kill = time.After(p.grace)
}

// signal reaches the attempt's process group.
func (p *process) signal(sig syscall.Signal) { _ = syscall.Kill(-p.pid, sig) }

// drain waits for the last output, but not for ever: what was executed in the container from outside may hold a pipe
// open, and whoever should read the container's log may not do it.
func (p *process) drain() {
	deadline := time.Now().Add(drainTime)
	for _, f := range p.outputs {
		_ = f.SetReadDeadline(deadline)
	}
	copied := make(chan struct{})
	go func() {
		p.copies.Wait()
		close(copied)
	}()
	select {
	case <-copied:
	case <-time.After(drainTime + drainTime/4):
		warn("the container's log is not read: the end of the output is missing from it")
	}
}
