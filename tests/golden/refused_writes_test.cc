// A system that writes less than it was given, is interrupted or loses its disk.
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include <gtest/gtest.h>

#include "golden/files/input_file.h"
#include "golden/files/output_file.h"
#include "tests/golden/scratch.h"
#include "tests/support/refusal.h"

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

namespace mxo {
namespace {

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
}  // namespace mxo
