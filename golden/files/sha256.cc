// SHA-256 by OpenSSL.  Its plain functions: EVP would draw two thirds of libcrypto into a program
// that links it statically, as the Python package's does.
#include "golden/files/sha256.h"

#include <array>
#include <fstream>
#include <vector>

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "formats/error.h"
#include "golden/files/input_file.h"

namespace mxo {
namespace {

class Digest {
 public:
  Digest() { check(SHA256_Init(&context_)); }
  void add(const void* data, std::size_t bytes) { check(SHA256_Update(&context_, data, bytes)); }
  std::string text() {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> bytes{};
    check(SHA256_Final(bytes.data(), &context_));
    std::string hex;
    for (const unsigned char byte : bytes) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
    return hex;
  }

 private:
  static void check(int succeeded) {
    if (succeeded != 1) throw Error(Fault::internal, "sha256: libcrypto refused");
  }
  SHA256_CTX context_{};
};

}  // namespace

std::string sha256(const void* data, std::size_t bytes) {
  Digest digest;
  digest.add(data, bytes);
  return digest.text();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream in = open_input(path).stream;
  Digest digest;
  std::vector<char> buffer(1 << 16);
  do {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    digest.add(buffer.data(), static_cast<std::size_t>(in.gcount()));
  } while (in);
  if (!in.eof()) throw Error(Fault::file, path.string() + ": cannot be read");
  return digest.text();
}

}  // namespace mxo
