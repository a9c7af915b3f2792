#include "reprise/cli/log_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "reprise/base/error.h"

namespace reprise::cli {
namespace {

LogConfig read_logging(std::string_view text) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("reprise_log_config_" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << text;
  try {
    LogConfig config = read_log_config(path);
    std::filesystem::remove(path);
    return config;
  } catch (...) {
    std::filesystem::remove(path);
    throw;
  }
}

std::string refusal_of(std::string_view text) {
  try {
    (void)read_logging(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

// The example in vLLM's page about logging.
constexpr std::string_view kExample = R"({
  "formatters": {"json": {"class": "pythonjsonlogger.jsonlogger.JsonFormatter"}},
  "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json",
                           "level": "INFO", "stream": "ext://sys.stdout"}},
  "loggers": {"vllm": {"handlers": ["console"], "level": "INFO", "propagate": false}},
  "version": 1})";

TEST(LogConfig, reads_the_example_of_vllms_page) {
  const LogConfig config = read_logging(kExample);
  EXPECT_EQ(config.form, LogForm::json);
  EXPECT_EQ(config.target, LogConfig::Target::standard_output);
  EXPECT_EQ(config.level, LogLevel::info);
  EXPECT_EQ(config.server_level, LogLevel::info);  // of the handler
}

TEST(LogConfig, reads_levels_of_loggers_and_a_file) {
  const LogConfig config = read_logging(R"({"version": 1, "disable_existing_loggers": false,
    "formatters": {"f": {"class": "vllm.logging_utils.NewLineFormatter",
        "format": "%(levelname)s %(asctime)s [%(fileinfo)s:%(lineno)d] %(message)s",
        "datefmt": "%m-%d %H:%M:%S"}},
    "handlers": {"h": {"class": "logging.FileHandler", "filename": "/x/y.log", "mode": "w",
                       "formatter": "f"}},
    "loggers": {"vllm": {"level": "WARN"}, "reprise": {"level": 10},
                "uvicorn": {"level": "CRITICAL"}, "uvicorn.access": {"level": 30}},
    "root": {"handlers": ["h"], "level": "ERROR"}})");
  EXPECT_EQ(config.level, LogLevel::debug);
  EXPECT_EQ(config.server_level, LogLevel::error);
  EXPECT_EQ(config.access_level, LogLevel::warning);
  EXPECT_EQ(config.form, LogForm::text);
  EXPECT_EQ(config.target, LogConfig::Target::file);
  EXPECT_EQ(config.file, "/x/y.log");
  EXPECT_FALSE(config.appends);
}

TEST(LogConfig, without_settings_changes_nothing) {
  const LogConfig config = read_logging(R"({"version": 1})");
  EXPECT_FALSE(config.level || config.server_level || config.access_level || config.form);
  EXPECT_EQ(config.target, LogConfig::Target::standard_error);
}

TEST(LogConfig, names_the_member_that_it_cannot_honour) {
  struct Case {
    std::string_view text;
    std::string_view member;
  };
  for (const Case& each : {
           Case{R"({})", ": version: "},
           Case{R"({"version": 2})", ": version: "},
           Case{R"({"version": 1, "colour": 1})", ": colour: "},
           Case{R"({"version": 1, "filters": {"f": {}}})", ": filters: "},
           Case{R"({"version": 1, "loggers": {"ray": {}}})", ": loggers.ray: "},
           Case{R"({"version": 1, "loggers": {"vllm": {"level": "LOUD"}}})",
                ": loggers.vllm.level: "},
           Case{R"({"version": 1, "loggers": {"vllm": {"filters": []}}})",
                ": loggers.vllm.filters: "},
           Case{R"({"version": 1, "loggers": {"vllm": {"handlers": ["a", "b"]}}})",
                ": loggers.vllm.handlers: 'b' "},
           Case{R"({"version": 1, "root": {"handlers": ["a"]}})", ": handlers.a: "},
           Case{R"({"version": 1, "handlers": {"a": {"class": "logging.handlers.SysLogHandler"}},
                    "root": {"handlers": ["a"]}})",
                ": handlers.a.class: "},
           Case{R"({"version": 1, "handlers": {"a": {"class": "logging.FileHandler"}},
                    "root": {"handlers": ["a"]}})",
                ": handlers.a.filename: "},
           Case{R"({"version": 1, "formatters": {"f": {"class": "my.Formatter"}},
                    "handlers": {"a": {"class": "logging.StreamHandler", "formatter": "f"}},
                    "root": {"handlers": ["a"]}})",
                ": formatters.f.class: "},
           Case{R"({"version": 1, "formatters": {"f": {"format": "%(message)s"}},
                    "handlers": {"a": {"class": "logging.StreamHandler", "formatter": "f"}},
                    "root": {"handlers": ["a"]}})",
                ": formatters.f.format: "},
       }) {
    EXPECT_NE(refusal_of(each.text).find(each.member), std::string::npos)
        << each.text << "\n  gave: " << refusal_of(each.text);
  }
}

TEST(LogConfig, a_file_that_is_missing_is_named) {
  EXPECT_THROW((void)read_log_config("/nonexistent/log.json"), InvalidArgument);
}

}  // namespace
}  // namespace reprise::cli
