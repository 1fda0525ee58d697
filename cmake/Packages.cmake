# fmt and nlohmann-json: by their headers, those of this machine, or those that an installed Locus has kept beside its
# sources (third_party), so that a bridge can be built where neither is installed.
set(LOCUS_HEADERS ${CMAKE_SOURCE_DIR}/third_party)
if(EXISTS ${LOCUS_HEADERS}/fmt/format.h)
  add_library(fmt::fmt-header-only INTERFACE IMPORTED GLOBAL)
  target_compile_definitions(fmt::fmt-header-only INTERFACE FMT_HEADER_ONLY=1)
  target_include_directories(fmt::fmt-header-only SYSTEM INTERFACE ${LOCUS_HEADERS})
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE ${LOCUS_HEADERS})
else()
  find_package(fmt 9 REQUIRED GLOBAL)
  find_package(nlohmann_json 3.9 REQUIRED GLOBAL)
endif()

# Copies the headers of a package to where an installed Locus keeps them.
function(locus_install_headers target name file)
  get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
  find_path(LOCUS_${name}_HEADERS ${name}/${file} PATHS ${folders})
  if(LOCUS_${name}_HEADERS)
    install(DIRECTORY ${LOCUS_${name}_HEADERS}/${name} DESTINATION locus/_source/third_party)
  endif()
endfunction()
