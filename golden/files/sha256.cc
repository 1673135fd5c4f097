// SHA-256 through OpenSSL's EVP interface.
#include "golden/files/sha256.h"

#include <array>
#include <fstream>
#include <memory>
#include <vector>

#include <openssl/evp.h>

#include "formats/error.h"
#include "golden/files/input_file.h"

namespace mxo {
namespace {

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  }
  void add(const void* data, std::size_t bytes) {
    check(EVP_DigestUpdate(context_.get(), data, bytes));
  }
  std::string text() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    check(EVP_DigestFinal_ex(context_.get(), bytes.data(), &length));
    std::string hex;
    for (unsigned i = 0; i < length; ++i) {
      hex += "0123456789abcdef"[bytes[i] >> 4];
      hex += "0123456789abcdef"[bytes[i] & 15];
    }
    return hex;
  }

 private:
  static void check(int succeeded) {
    if (succeeded != 1) throw Error(Fault::internal, "sha256: libcrypto refused");
  }
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
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
