#pragma once

#include <memory>
#include <string_view>

#include "chat_template/chat_template.h"
#include "checkpoint/content_hash.h"
#include "config/config.h"
#include "frontend/frontend.h"
#include "openai/exchange.h"

namespace octavo::openai {

/// Everything a handler may use. Lives as long as the server.
struct ApiContext {
  frontend::Frontend* frontend = nullptr;
  const chat_template::ChatTemplate* chat_template = nullptr;  // nullptr: the model has none
  const config::Config* config = nullptr;
  Clock* clock = nullptr;
  std::string model_root;  // path, for /v1/models
  int64_t created_s = 0;
  std::string system_fingerprint;     // "octavo-<version>-<8 hex>"
  std::string default_sampling_json;  // resolved generation_config (+ override), JSON object
  std::string kernels;                // the instruction sets in use, for /octavo/config
  int num_threads = 0;                // of the kernel pool
  std::string model_revision;         // of a hub's cache folder; empty: not known
  std::string image_digest;           // of the container image; empty: not known
  checkpoint::ContentHash* weights = nullptr;  // nullptr: none, as in tests
};

using Handler = void (*)(const ApiContext& api, HttpRequest request,
                         std::shared_ptr<Exchange> exchange);

void post_chat_completions(const ApiContext&, HttpRequest, std::shared_ptr<Exchange>);
void post_completions(const ApiContext&, HttpRequest, std::shared_ptr<Exchange>);
void post_tokenize(const ApiContext&, HttpRequest, std::shared_ptr<Exchange>);
void post_detokenize(const ApiContext&, HttpRequest, std::shared_ptr<Exchange>);
void get_models(const ApiContext&, HttpRequest, std::shared_ptr<Exchange>);
void get_version(const ApiContext&, HttpRequest, std::shared_ptr<Exchange>);
void get_server_config(const ApiContext&, HttpRequest, std::shared_ptr<Exchange>);

/// The error object: {"error": {"message", "type", "param", "code"}}.
HttpResponse error_response(const Error& error);
HttpResponse error_response(int status, std::string_view type, std::string_view message,
                            std::string_view param = {});

}  // namespace octavo::openai
