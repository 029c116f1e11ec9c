# tests/fuzz/fuzz_<room>_<what>.cc links octavo_<room> and becomes build/fuzz/fuzz_<room>_<what>.
file(GLOB targets CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.cc)
foreach(source ${targets})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX MATCH "^fuzz_(chat_template|checkpoint|model|tokenizer|openai|server)" match ${name})
  add_executable(${name} ${source})
  if(match)  # the canary links no room
    target_link_libraries(${name} PRIVATE octavo_${CMAKE_MATCH_1})
  endif()
  octavo_options(${name})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
