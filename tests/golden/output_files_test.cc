// What the system refuses, what stays behind, and what a file that is never committed leaves; a
// system that writes less than it was given, is interrupted or loses its disk.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "golden/files/input_file.h"
#include "golden/files/output_file.h"
#include "golden/files/sha256.h"
#include "golden/files/temporary_name.h"
#include "tests/golden/scratch.h"
#include "tests/support/refusal.h"

extern "C" void __asan_init() __attribute__((weak));  // there where AddressSanitizer is

namespace {

/// What the calls below do otherwise than the system's own.
struct Otherwise {
  std::size_t most = SIZE_MAX;  ///< bytes of one write
  int interruptions = 0;        ///< of the next writes
  int refusal = 0;              ///< of fsync
  int brought = 0;              ///< calls of fsync
};
Otherwise otherwise;

}  // namespace

// In place of the C library's in this program.
extern "C" ssize_t write(int file, const void* data, std::size_t bytes) {
  if (otherwise.interruptions > 0) {
    --otherwise.interruptions;
    errno = EINTR;
    return -1;
  }
  return ::syscall(SYS_write, file, data, std::min(bytes, otherwise.most));
}

extern "C" int fsync(int file) {
  ++otherwise.brought;
  if (otherwise.refusal == 0) return static_cast<int>(::syscall(SYS_fsync, file));
  errno = otherwise.refusal;
  return -1;
}

namespace mxo::output_files_test {
namespace {

namespace fs = std::filesystem;

/// What is said behind the path; nothing where nothing is thrown.
std::string said(const fs::path& path, const std::function<void()>& act) {
  const std::string all = refusal(act, Fault::file);
  return all.substr(std::min(all.size(), path.string().size() + 2));
}

std::ptrdiff_t entries_of(const fs::path& path) {
  return std::distance(fs::directory_iterator(path), fs::directory_iterator());
}

/// A lower limit of this process while it lives.
class Limited {
 public:
  Limited(__rlimit_resource which, rlim_t most) : which_(which) {
    ::getrlimit(which_, &before_);
    const rlimit limit{most, before_.rlim_max};
    ::setrlimit(which_, &limit);
  }
  ~Limited() { ::setrlimit(which_, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  __rlimit_resource which_;
  rlimit before_{};
};

TEST(OutputFiles, AppearWholeOrNotAtAll) {
  const Scratch scratch;
  const fs::path path = scratch / "out";
  write_text_file(path, "old");
  {
    OutputFile out(path);
    out.write("half of it");
    EXPECT_EQ(entries_of(scratch.path()), 2);
    EXPECT_EQ(read_text_file(path), "old");
  }
  EXPECT_EQ(entries_of(scratch.path()), 1);
  EXPECT_EQ(read_text_file(path), "old");
  errno = EINTR;  // of a call long before
  write_text_file(path, "new");
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_EQ(entries_of(scratch.path()), 1);
  write_text_file(scratch / "empty", "");
  EXPECT_EQ(fs::file_size(scratch / "empty"), 0u);
  write_text_file(scratch / "one", "1");
  EXPECT_EQ(read_text_file(scratch / "one"), "1");
}

TEST(OutputFiles, AreWrittenUnderNamesThatNobodyForesees) {
  std::set<std::string> places[16], pairs[16];
  for (int i = 0; i < 200; ++i) {
    const std::string name = temporary_name("folder/out").string();
    ASSERT_EQ(name.find("folder/out.partial-"), 0u) << name;
    const std::string random = name.substr(19);
    ASSERT_EQ(random.size(), 16u) << name;
    for (std::size_t at = 0; at < 16; ++at) places[at].insert(random.substr(at, 1));
    for (std::size_t at = 0; at < 15; ++at) pairs[at].insert(random.substr(at, 2));
  }
  for (std::size_t at = 0; at < 15; ++at) EXPECT_GT(pairs[at].size(), 64u) << "bits come twice";
  for (const auto& seen : places) EXPECT_EQ(seen.size(), 16u);
}

TEST(OutputFiles, KeepNoDescriptor) {
  const Scratch scratch;
  const auto open = [] { return entries_of("/proc/self/fd"); };
  const std::ptrdiff_t before = open();
  write_text_file(scratch / "out", "text");
  EXPECT_EQ(open(), before);
  { const OutputFile never(scratch / "never"); }
  EXPECT_EQ(open(), before);
  // The least descriptor is one like any other, and not closed behind another's back.
  const int kept = ::dup(0);
  ::close(0);
  { const OutputFile never(scratch / "never"); }
  EXPECT_EQ(::fcntl(0, F_GETFD), -1);
  write_text_file(scratch / "out", "text");
  EXPECT_EQ(::fcntl(0, F_GETFD), -1) << "the directory's";
  ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  write_text_file(scratch / "out", "text");
  EXPECT_NE(::fcntl(0, F_GETFD), -1);
  ::close(0);
  if (kept >= 0) {
    ::dup2(kept, 0);
    ::close(kept);
  }
  EXPECT_EQ(entries_of(scratch.path()), 1);
}

TEST(OutputFiles, ReplaceRegularFilesAlone) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  fs::create_directory(scratch / "folder");
  const auto opened = [](const fs::path& path) {
    return said(path, [&] { const OutputFile out(path); });
  };
  const std::string needs = ", needs a regular file or a new name";
  EXPECT_EQ(opened(scratch / "pipe"), "cannot be replaced: found a pipe" + needs);
  EXPECT_EQ(opened(scratch / "folder"), "cannot be replaced: found a directory" + needs);
  EXPECT_EQ(opened("/dev/null"), "cannot be replaced: found a device" + needs);
  EXPECT_EQ(opened(scratch / "none/out"), "cannot be opened: No such file or directory");
  EXPECT_EQ(entries_of(scratch.path()), 2);
}

TEST(OutputFiles, WriteThroughLinksThatLeadToFiles) {
  const Scratch scratch;
  write_text_file(scratch / "real", "old");
  fs::create_symlink("real", scratch / "link");
  write_text_file(scratch / "link", "new");
  EXPECT_TRUE(fs::is_symlink(scratch / "link"));
  EXPECT_EQ(read_text_file(scratch / "real"), "new");
  fs::create_symlink("absent", scratch / "dangling");
  write_text_file(scratch / "dangling", "text");
  EXPECT_FALSE(fs::is_symlink(scratch / "dangling"));
  EXPECT_EQ(read_text_file(scratch / "dangling"), "text");
  EXPECT_FALSE(fs::exists(scratch / "absent"));
}

TEST(OutputFiles, SayWhatTheSystemRefuses) {
  const Scratch scratch;
  const fs::path path = scratch / "out";
  write_text_file(path, "old");
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  {
    const Limited limited(RLIMIT_FSIZE, 1000);
    EXPECT_EQ(said(path, [&] { write_text_file(path, std::string(2000, 'x')); }),
              "cannot be written: File too large");
  }
  std::signal(SIGXFSZ, signal_before);
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(said(path,
                 [&] {
                   OutputFile out(path);
                   fs::remove(path);
                   fs::create_directory(path);
                   out.commit();
                 }),
            "cannot be renamed to: Is a directory");
  EXPECT_EQ(entries_of(scratch.path()), 1);
}

TEST(OutputFiles, GoWithAProcessThatIsStopped) {
  const Scratch scratch;
  EXPECT_EXIT(
      {
        OutputFile out(scratch / "out");
        out.write("half");
        {
          const Leftover whole([&] { return scratch / "whole"; });
        }
        std::ofstream(scratch / "whole") << "of an earlier step";
        remove_leftovers();
        std::atomic<int> done{0};
        std::thread([&] {
          const OutputFile late(scratch / "late");
          ++done;
        }).detach();
        std::thread([&] {
          out.commit();
          ++done;
        }).detach();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ::_exit(done);  // nothing begins or ends once they are gone
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(entries_of(scratch.path()), 1);
  EXPECT_TRUE(fs::exists(scratch / "whole"));
}

TEST(InputFiles, ThatCannotBeReadAreRefused) {
  const Scratch scratch;
  const fs::path path = scratch / "in";
  write_text_file(path, "text");
  EXPECT_EQ(said(path, [&] { open_input(path); }), "");
  if (__asan_init == nullptr) {  // the sanitizers open pipes of their own
    const Limited limited(RLIMIT_NOFILE, 0);
    EXPECT_EQ(said(path, [&] { open_input(path); }), "cannot be opened");
  }
  // A regular file whose first byte is in no memory, and one that is shorter than its size.
  const fs::path memory = "/proc/self/mem";
  EXPECT_EQ(said(memory, [&] { sha256_of_file(memory); }), "cannot be read");
  const fs::path shorter = "/sys/kernel/mm/transparent_hugepage/enabled";
  std::error_code error;
  if (fs::file_size(shorter, error) < 4096 || error) GTEST_SKIP() << "no file is shorter here";
  EXPECT_EQ(said(shorter, [&] { read_text_file(shorter); }), "cannot be read");
}

class RefusedWrites : public testing::Test {
 protected:
  RefusedWrites() { otherwise = {}; }
  ~RefusedWrites() override { otherwise = {}; }
  Scratch scratch_;
};

TEST_F(RefusedWrites, GoOnWhereTheSystemStopped) {
  otherwise.most = 3;
  otherwise.interruptions = 2;
  write_text_file(scratch_ / "out", "0123456789");
  EXPECT_EQ(otherwise.interruptions, 0);
  otherwise = {};
  EXPECT_EQ(read_text_file(scratch_ / "out"), "0123456789");
}

TEST_F(RefusedWrites, BringTheFileAndItsNameToTheDisk) {
  write_text_file(scratch_ / "out", "text");
  EXPECT_EQ(otherwise.brought, 2);
}

TEST_F(RefusedWrites, LeaveTheOldFileWhereTheDiskIsLost) {
  write_text_file(scratch_ / "out", "old");
  otherwise.refusal = EIO;
  const std::string said = refusal([&] { write_text_file(scratch_ / "out", "new"); });
  EXPECT_NE(said.find("cannot be written: Input/output error"), std::string::npos) << said;
  EXPECT_EQ(read_text_file(scratch_ / "out"), "old");
  otherwise.refusal = EINVAL;  // a file system that brings nothing to a disk
  write_text_file(scratch_ / "out", "new");
  EXPECT_EQ(read_text_file(scratch_ / "out"), "new");
}

}  // namespace
}  // namespace mxo::output_files_test
