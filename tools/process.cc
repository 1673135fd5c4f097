// Descriptors, signals and the ways a process can end.
#include "tools/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>
#include <thread>

#include "formats/error.h"
#include "golden/files/leftovers.h"
#include "golden/reports/text.h"
#include "tools/command.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

bool ended_by_us = false;
bool error_said = false;

[[noreturn]] void leave(const char* why, int code) {
  std::fprintf(stderr, "mxo: %s\n", why);
  std::fflush(stderr);
  remove_leftovers();
  ::_exit(code);
}

[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    leave("out of memory", kBadInput);
  } catch (const std::exception& error) {
    leave(one_line(error.what()).c_str(), kUnsupported);
  } catch (...) {
  }
  leave("ended by an exception of no known type", kUnsupported);
}

/// libgomp, for one, calls exit(1) where a thread cannot start.
void on_exit() {
  if (ended_by_us) return;
  remove_leftovers();
  ::_exit(kUnsupported);
}

void take_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    if (::open("/dev/null", O_RDONLY) < 0) ::_exit(kUnsupported);  // takes the lowest that is free
  }
}

/// A limit of the size of files is an error of the write that meets it, not the end.
void outlive_file_limits() { std::signal(SIGXFSZ, SIG_IGN); }

void wait_for_signals() {
  sigset_t stops;
  sigset_t before;
  sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
  ::pthread_sigmask(SIG_BLOCK, &stops, &before);  // of all threads: they inherit it
  try {
    std::thread([stops] {
      int signal = 0;
      if (::sigwait(&stops, &signal) != 0) return;
      remove_leftovers();
      std::signal(signal, SIG_DFL);
      ::pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
      ::kill(::getpid(), signal);
    }).detach();
  } catch (const std::system_error&) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);  // no thread to be had: signals just end it
  }
}

}  // namespace

void guard_process() {
  take_closed_descriptors();
  std::set_terminate(on_terminate);
  std::atexit(on_exit);
  outlive_file_limits();
  wait_for_signals();
}

void say_error(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
  error_said = true;
}

void bring_out_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Error(Fault::file, std::string("stdout: cannot be written") + (errno == 0 ? "" : ": ") +
                               (errno == 0 ? "" : std::strerror(errno)));
}

int end_process(int code) {
  ended_by_us = true;
  try {
    bring_out_stdout();
    return code;
  } catch (const Error& error) {
    if (error_said) return code;
    say_error(std::string("mxo: ") + error.what());
    return kBadInput;
  }
}

}  // namespace mxo::tools
