#include "reprise/hub/download/blob_transfer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/hub/download/file_hash.h"

namespace reprise::hub {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// Answers each request on 127.0.0.1 with the text that `answer` makes from the head of the
/// request, then closes the connection.
class TextServer {
 public:
  explicit TextServer(std::function<std::string(const std::string& head)> answer)
      : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  TextServer(const TextServer&) = delete;
  TextServer& operator=(const TextServer&) = delete;
  ~TextServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  [[nodiscard]] std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  [[nodiscard]] std::vector<std::string> heads() const {
    const std::scoped_lock lock(mutex_);
    return heads_;
  }

 private:
  void serve() {
    while (true) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      std::string head;
      std::array<char, 4096> buffer{};
      while (head.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::read(client, buffer.data(), buffer.size());
        if (got <= 0) break;
        head.append(buffer.data(), static_cast<size_t>(got));
      }
      const std::string text = answer_(head);
      {
        const std::scoped_lock lock(mutex_);
        heads_.push_back(head);
      }
      EXPECT_EQ(::send(client, text.data(), text.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(text.size()));
      ::close(client);
    }
  }

  std::function<std::string(const std::string& head)> answer_;
  int socket_;
  uint16_t port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<std::string> heads_;
};

std::string answer_with(std::string_view content,
                        std::string_view status = "200 OK",
                        std::string_view more = "") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
                     status,
                     content.size(),
                     more,
                     content);
}

std::string redirect_to(const std::string& url) {
  return answer_with("", "302 Found", fmt::format("Location: {}\r\n", url));
}

class BlobTransfer : public testing::Test {
 protected:
  BlobTransfer()
      : folder_(fs::temp_directory_path() / fmt::format("reprise_blob_{}", getpid())),
        place_{.blobs = folder_ / "blobs", .lock = folder_ / "locks" / "a.lock"} {
    fs::remove_all(folder_);
    fs::create_directories(place_.blobs);
  }
  ~BlobTransfer() override { fs::remove_all(folder_); }

  static RepositoryFile file_of(std::string_view content) {
    FileHash hash(HashKind::sha256, content.size());
    hash.add(content);
    return {.path = "m.safetensors",
            .size = content.size(),
            .hash_kind = HashKind::sha256,
            .hash = hash.hex()};
  }

  void fetch(const std::string& url, const RepositoryFile& file) {
    const HubConnection hub({.endpoint = http_client::parse_url("test", url),
                             .token = "hf_secret",
                             .repository = "a/b",
                             .revision = "main",
                             .proxies = {},
                             .on_wait = {}});
    fetch_blob(hub,
               "/a/b/resolve/main/m.safetensors",
               file,
               place_,
               {.on_bytes = [this](int64_t bytes) { counted_ += bytes; },
                .on_message = [this](std::string_view message) { messages_ += message; }});
  }

  [[nodiscard]] std::string blob(const RepositoryFile& file) const {
    std::ifstream stream(place_.blobs / file.hash, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_;
  BlobPlace place_;
  int64_t counted_ = 0;
  std::string messages_;
};

TEST_F(BlobTransfer, the_token_stays_with_the_hub) {
  const std::string content = "the weights";
  const TextServer store([&](const std::string&) { return answer_with(content); });
  const TextServer hub(
      [&](const std::string&) { return redirect_to(store.url() + "/objects/1?signature=2"); });
  const RepositoryFile file = file_of(content);
  fetch(hub.url(), file);
  EXPECT_EQ(blob(file), content);
  EXPECT_EQ(counted_, static_cast<int64_t>(content.size()));
  ASSERT_EQ(hub.heads().size(), 1U);
  ASSERT_EQ(store.heads().size(), 1U);
  EXPECT_THAT(hub.heads()[0], HasSubstr("hf_secret"));
  EXPECT_THAT(store.heads()[0], Not(HasSubstr("hf_secret")));
  EXPECT_THAT(store.heads()[0], HasSubstr("GET /objects/1?signature=2 HTTP/1.1"));
}

TEST_F(BlobTransfer, content_with_another_hash_gets_no_name) {
  const TextServer hub([](const std::string&) { return answer_with("the Weights"); });
  const RepositoryFile file = file_of("the weights");
  EXPECT_THROW(fetch(hub.url(), file), Error);
  EXPECT_FALSE(fs::exists(place_.blobs / file.hash));
  EXPECT_EQ(bytes_on_disk(file, place_), 0U);
  EXPECT_EQ(counted_, 0);
}

TEST_F(BlobTransfer, only_the_rest_is_asked_for) {
  const std::string content = "the weights";
  const RepositoryFile file = file_of(content);
  std::ofstream(place_.blobs / (file.hash + ".incomplete")) << "the w";
  EXPECT_EQ(bytes_on_disk(file, place_), 5U);
  const TextServer hub([](const std::string&) {
    return answer_with("eights", "206 Partial Content", "Content-Range: bytes 5-10/11\r\n");
  });
  fetch(hub.url(), file);
  EXPECT_EQ(blob(file), content);
  EXPECT_EQ(counted_, 6);
  EXPECT_THAT(hub.heads().at(0), HasSubstr("range: bytes=5-\r\n"));
}

TEST_F(BlobTransfer, more_bytes_than_listed_are_refused) {
  const TextServer hub([](const std::string&) { return answer_with("the weights and more"); });
  const RepositoryFile file = file_of("the weights");
  EXPECT_THROW(fetch(hub.url(), file), Error);
  EXPECT_FALSE(fs::exists(place_.blobs / file.hash));
}

TEST_F(BlobTransfer, a_complete_file_is_not_asked_for) {
  const RepositoryFile file = file_of("the weights");
  std::ofstream(place_.blobs / file.hash) << "the weights";
  fetch("http://127.0.0.1:1", file);
  EXPECT_EQ(bytes_on_disk(file, place_), file.size);
}

TEST_F(BlobTransfer, a_closed_port_is_a_hub_that_does_not_answer) {
  EXPECT_THROW(fetch("http://127.0.0.1:1", file_of("x")), HubUnreachable);
}

TEST(FileHash, small_files_have_the_hash_that_git_gives_them) {
  FileHash hash(HashKind::git_sha1, 6);
  hash.add("hel");
  hash.add("lo\n");
  EXPECT_EQ(hash.hex(),
            "ce013625030ba8dba906f756967f9e9ca394464a");  // echo hello | git hash-object --stdin
}

TEST(HubUrls, bytes_outside_of_the_plain_ones_are_escaped) {
  EXPECT_EQ(url_path("a b/é?.json", Slashes::kept), "a%20b/%C3%A9%3F.json");
  EXPECT_EQ(url_path("refs/pr/1", Slashes::escaped), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace reprise::hub
