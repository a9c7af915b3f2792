#include "reprise/cli/otlp_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cli/environment.h"
#include "reprise/cli/version.h"
#include "reprise/http_client/http_client.h"

namespace reprise::cli {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kTracesEndpoint = "--otlp-traces-endpoint";
constexpr const char* kTracesPath = "/v1/traces";
constexpr uint16_t kGrpcPort = 4317;
constexpr auto kCollectorTimeout = std::chrono::milliseconds(10'000);

/// The collector of traces, and how to send to it.
struct Collector {
  http_client::BaseUrl url;
  std::string path;
  Headers headers;
  std::chrono::milliseconds timeout = kCollectorTimeout;
};

std::string variable_or_empty(std::string_view name) {
  return look_up_process_environment(name).value_or("");
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const size_t end = text.find_last_not_of(" \t") + 1;
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

/// "%20" becomes a space. nullopt: a percent sign without two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    auto byte = static_cast<unsigned char>(text[0]);
    size_t size = 1;
    if (text[0] == '%') {
      size = 3;
      if (text.size() < size) return std::nullopt;
      const char* const end = text.data() + size;
      const auto result = std::from_chars(text.data() + 1, end, byte, 16);
      if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    }
    decoded += static_cast<char>(byte);
    text.remove_prefix(size);
  }
  return decoded;
}

bool is_header_name(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [kMarks](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || kMarks.find(c) != std::string_view::npos;
  });
}

bool is_header_value(std::string_view value) {
  return std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~'; });
}

// The value may contain a key of the collector, so no message shows it.
Headers read_collector_headers() {
  constexpr const char* kName = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
  const std::string text = variable_or_empty(kName);
  Headers headers;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part.empty()) continue;
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = trimmed(part.substr(0, equals));
    const auto value = percent_decoded(trimmed(part.substr(std::min(equals + 1, part.size()))));
    if (equals == part.size() || !is_header_name(name) || !value || !is_header_value(*value)) {
      throw InvalidArgument(
          fmt::format("{}: part {} is not name=value", kName, headers.size() + 1));
    }
    headers.emplace_back(name, *value);
  }
  return headers;
}

std::chrono::milliseconds read_collector_timeout() {
  constexpr const char* kName = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
  constexpr int64_t kHour = 3'600'000;
  const std::string text = variable_or_empty(kName);
  if (text.empty()) return kCollectorTimeout;
  const int64_t number = parse_human_integer(kName, text);
  if (number < 1 || number > kHour) {
    throw InvalidArgument(fmt::format("{}: milliseconds from 1 to {}", kName, kHour));
  }
  return std::chrono::milliseconds(number);
}

void check_traces_protocol() {
  constexpr const char* kName = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
  const std::string protocol = variable_or_empty(kName);
  if (protocol.empty() || protocol == "http/json" || protocol == "http/protobuf") return;
  throw InvalidArgument(
      fmt::format("{}: '{}' is not supported; traces are sent as OTLP/HTTP with JSON: use "
                  "http/json and the collector's HTTP receiver, usually http://HOST:4318{}",
                  kName,
                  protocol,
                  kTracesPath));
}

Collector read_collector(const std::string& endpoint) {
  if (endpoint.starts_with("grpc://") || endpoint.starts_with("grpcs://")) {
    throw InvalidArgument(
        fmt::format("{} {}: gRPC is not supported; name the collector's HTTP receiver, usually "
                    "http://HOST:4318{}",
                    kTracesEndpoint,
                    endpoint,
                    kTracesPath));
  }
  check_traces_protocol();
  Collector collector{.url = http_client::parse_url(kTracesEndpoint, endpoint),
                      .headers = read_collector_headers(),
                      .timeout = read_collector_timeout()};
  collector.path = std::exchange(collector.url.path, "");
  if (collector.path.empty()) collector.path = kTracesPath;
  return collector;
}

/// Posts one body. \throws Error when the collector does not accept the body in time
void post_spans(const Collector& collector, const std::string& body) {
  http_client::HttpClient client(collector.url);
  int status = 0;
  std::string failure;
  client.at(http_client::Clock::now() + collector.timeout,
            [&client] { client.cancel("the collector did not answer in time"); });
  client.send(
      {.method = "POST", .target = collector.path, .headers = collector.headers, .body = body},
      {.on_head = [&status](const http_client::HttpHead& head) { status = head.status; },
       .on_piece = [](std::string_view) {},
       .on_end =
           [&](const std::string& error) {
             failure = error;
             client.cancel("");  // the time limit
           }});
  client.run();
  if (failure.empty() && status >= 200 && status <= 299) return;
  throw Error(fmt::format(
      "POST {}{}: {}{}",
      collector.url.authority(),
      collector.path,
      failure.empty() ? fmt::format("status {}", status) : failure,
      collector.url.port == kGrpcPort ? "; port 4317 is usually gRPC's, and 4318 takes HTTP" : ""));
}

}  // namespace

void add_otlp_options(OptionTable& table, OtlpOptions& options) {
  table.add_text("otlp-traces-endpoint",
                 kServer,
                 "URL",
                 "Send a trace span of each request to this OTLP/HTTP receiver: "
                 "http://HOST:4318/v1/traces.",
                 options.endpoint);
}

std::shared_ptr<server::Tracer> make_tracer(const OtlpOptions& options, const Log& log) {
  if (options.endpoint.empty()) return nullptr;
  server::SpanExporterOptions exporter;
  exporter.resource.version = kVersion;
  const std::string name = variable_or_empty("OTEL_SERVICE_NAME");
  if (!name.empty()) exporter.resource.service_name = name;
  return std::make_shared<server::Tracer>(
      std::move(exporter),
      [collector = read_collector(options.endpoint)](const std::string& body) {
        post_spans(collector, body);
      },
      log);
}

}  // namespace reprise::cli
