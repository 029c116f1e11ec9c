#include <algorithm>
#include <utility>

#include "openai/api.h"
#include "openai/json_writer.h"
#include "openai/random_id.h"

namespace octavo::openai {
namespace {

void write_model(JsonWriter& w, const ApiContext& api, std::string_view name) {
  w.begin_object().key("id").string(name).key("object").string("model");
  w.key("created").integer(api.created_s).key("owned_by").string("vllm");
  w.key("root").string(api.model_root).key("parent").null();
  w.key("max_model_len").integer(api.frontend->engine_info().max_model_len);
  w.key("permission").begin_array().begin_object();
  w.key("id").string("modelperm-" + random_hex(32)).key("object").string("model_permission");
  w.key("created").integer(api.created_s);
  w.key("allow_create_engine").boolean(false).key("allow_sampling").boolean(true);
  w.key("allow_logprobs").boolean(true).key("allow_search_indices").boolean(false);
  w.key("allow_view").boolean(true).key("allow_fine_tuning").boolean(false);
  w.key("organization").string("*").key("group").null().key("is_blocking").boolean(false);
  w.end_object().end_array().end_object();
}

}  // namespace

void get_models(const ApiContext& api, HttpRequest, std::shared_ptr<Exchange> exchange) {
  const auto& model = api.config->engine.model;
  HttpResponse out;
  JsonWriter w(out.body);
  w.begin_object().key("object").string("list").key("data").begin_array();
  if (model.served_model_name.empty()) write_model(w, api, model.model);
  for (const std::string& name : model.served_model_name) write_model(w, api, name);
  w.end_array().end_object();
  exchange->respond(std::move(out));
}

void get_version(const ApiContext& api, HttpRequest, std::shared_ptr<Exchange> exchange) {
  // The fingerprint is "octavo-<version>-<8 hex>".
  std::string_view version = api.system_fingerprint;
  version.remove_prefix(std::min(version.size(), version.find('-') + 1));
  version = version.substr(0, version.rfind('-'));
  HttpResponse out;
  JsonWriter w(out.body);
  w.begin_object().key("version").string(version).key("engine").string("octavo").end_object();
  exchange->respond(std::move(out));
}

}  // namespace octavo::openai
