#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/http_client/http_client.h"

namespace reprise::hub {

/// No answer came from the hub: no name service, no route, a closed port, a certificate that this
/// machine does not trust. `what()` is the reason in a few words.
class HubUnreachable : public Error {
 public:
  using Error::Error;
};

/// Counts attempts, and waits longer before each next one.
class Retries {
 public:
  /// `on_wait` is told why an attempt failed and how long the next one is put off.
  using OnWait = std::function<void(std::string_view reason, std::chrono::seconds wait)>;
  explicit Retries(const OnWait& on_wait) : on_wait_(&on_wait) {}

  /// Sleeps before another attempt: 1, 2, 4, 8 and 16 seconds, or as long as the server's header
  /// Retry-After says. \throws Error with the reason after the last attempt
  void wait(const std::string& reason, std::string_view retry_after = {});
  /// Called when there was progress: the count begins again.
  void reset() noexcept { num_failed_ = 0; }

  /// Whether a later attempt may succeed after this status: too many requests, a server that is
  /// busy or starting.
  [[nodiscard]] static bool is_worth_it(int status) noexcept;

 private:
  const OnWait* on_wait_;  // of the caller
  int num_failed_ = 0;
};

/// Requests about one repository of a hub. Several threads may use it at the same time.
///
/// The token is sent only to the hub's own scheme, host and port. Answers about large files lead to
/// other hosts, which must not learn it.
class HubConnection {
 public:
  struct Options {
    http_client::BaseUrl endpoint;
    std::string token;       // empty: anonymous
    std::string repository;  // "ORG/NAME"
    std::string revision;    // for messages
    http_client::ProxyRules proxies;
    Retries::OnWait on_wait;
  };
  explicit HubConnection(Options options) : options_(std::move(options)) {}

  /// How a request ended. `error` is empty when the whole answer arrived; without any answer the
  /// head's status is 0.
  struct Outcome {
    http_client::HttpHead head;
    std::string error;
  };
  struct Handlers {
    std::function<void(const http_client::HttpHead& head)> on_head;
    std::function<void(std::string_view piece)> on_piece;
  };
  /// Sends one request and follows redirects; the handlers see only the last answer. Passes on
  /// exceptions of handlers. \throws HubUnreachable when the hub has not answered anything yet
  Outcome get(const std::string& target,
              const http_client::HttpHeaders& headers,
              const Handlers& handlers) const;

  /// The body of an answer, after retries. \throws InvalidArgument, Error as refuse()
  http_client::HttpReply fetch(const std::string& target) const;

  /// Says what a status other than success means and what to do. \throws InvalidArgument when the
  /// user can change it (name, revision, token, consent to a licence), else Error
  [[noreturn]] void refuse(const http_client::HttpHead& head, std::string_view target) const;

  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  Options options_;
  mutable std::atomic<bool> was_reached_ = false;
};

/// Encodes `text` for a URL's path: bytes other than letters, digits and "-._~" are written as %XX,
/// and '/' too unless `kept`.
enum class Slashes : uint8_t { kept, escaped };
[[nodiscard]] std::string url_path(std::string_view text, Slashes slashes);

}  // namespace reprise::hub
