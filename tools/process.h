// From the first to the last moment of the process: descriptors, signals, ends that were not asked
// for.
#pragma once

#include <string>

namespace mxo::tools {

/// To be called once, first.  A closed standard descriptor is taken, so that no file can become
/// it; SIGINT, SIGTERM and SIGHUP remove unfinished files before they end the process; a file that
/// grows beyond its limit is an error of its write; an exception that escapes a thread (memory that
/// ran out inside a parallel loop) is one line and an exit code; and a library that ends the
/// process does not do so with the code of a verdict.
void guard_process();

/// The one line of an error, on stderr.  Where that is closed, nothing is said and nothing else
/// changes.
void say_error(const std::string& line);

/// What was printed must be out before a file gets its name.  Throws Error(file).
void bring_out_stdout();

/// The last thing: brings stdout out.  Returns `code`, or kBadInput with one line on stderr if
/// what was printed could not be written; nothing more is said after an error.
int end_process(int code);

}  // namespace mxo::tools
