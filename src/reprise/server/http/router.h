#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/server/http/api_error.h"
#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

using ExchangeRef = std::shared_ptr<HttpExchange>;

/// The function that answers one request, on the I/O thread; holds the result of `prepare`.
struct Answering {
  Answering() = default;
  template <std::invocable<const ExchangeRef&> Function>
  Answering(Function function, std::vector<std::string> fields = {})
      : answer(std::move(function)), unused_fields(std::move(fields)) {}

  std::function<void(const ExchangeRef&)> answer;
  /// The fields of the request's body that have no effect; the answer's header names them.
  std::vector<std::string> unused_fields;
};

/// A part of a request's query, for the description of the API.
struct QueryParameter {
  std::string name;
  std::string schema;  // JSON
  std::string what;    // one sentence
};

enum class Access { open, guarded };  // guarded: the route needs a key if the server has keys

/// One line of the table that dispatches requests and describes the API.
struct Route {
  std::string method;
  /// A last segment in braces takes the rest of the path: "/v1/models/{model_id}".
  std::string path;
  Access access = Access::guarded;
  std::vector<QueryParameter> query;
  // names the schema of the JSON body in api_schemas(); empty: the route takes no body
  std::string body_schema;
  /// The I/O thread runs `prepare` for bodies up to this size, within one or two milliseconds,
  /// during which streams pause. For larger bodies another thread runs `prepare`. 0: always the
  /// other thread.
  size_t max_inline_bytes = size_t{16} << 10;
  std::vector<std::string> answer_types = {"application/json"};
  std::string summary;  // one sentence
  /// Runs on the I/O thread; an exception becomes the answer. For a route with a body this function
  /// only checks, and may throw before the body is read; then it may be empty.
  std::function<void(const HttpRequest&, const ExchangeRef&)> handle;
  /// For a route with a body: reads the body, perhaps on another thread. Long computations obey the
  /// request's work limit.
  std::function<Answering(const HttpRequest&)> prepare;
  /// `prepare` waits for the engine, so it runs on a separate thread, one request after the other.
  bool waits_for_engine = false;
  /// Gives an answer of status 400 or more the form of an API other than OpenAI's. The given
  /// answer's body is error_body().
  HttpResponse (*reshape_error)(HttpResponse) = nullptr;
  // the route is in /openapi.json; false for a route that only explains why a feature is off
  bool is_described = true;

  /// `path` up to its parameter; the whole path if it has none.
  [[nodiscard]] std::string_view fixed_part() const;
  /// The part of a request's path in the place of the parameter, with escapes decoded.
  [[nodiscard]] std::string parameter_in(std::string_view request_path) const;
};

/// The path exists, but not for this method; `allowed` lists its methods.
class MethodNotAllowed : public ApiError {
 public:
  explicit MethodNotAllowed(const std::string& allowed);
  [[nodiscard]] const std::string& allowed() const noexcept { return allowed_; }

 private:
  std::string allowed_;
};

/// Every route of the server.
class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }
  /// A HEAD request finds the route of GET. \throws MethodNotAllowed; ApiError 404
  [[nodiscard]] const Route& find(const HttpRequest& request) const;
  [[nodiscard]] const std::vector<Route>& routes() const noexcept { return routes_; }

 private:
  std::vector<Route> routes_;
};

/// Answers 200 with an empty body.
void answer_empty(const ExchangeRef& exchange);

/// \throws ApiError 415 unless `content_type` is application/json
void check_is_json(std::string_view content_type);

}  // namespace reprise::server
