# Builds Locus for the PyTorch that PYTHON has, beside the everyday build, in build/$1, and makes Python find it: sourced by
# scripts for machines with a PyTorch of their own. Fetches nothing. Where CMake does not find nlohmann_json or fmt, say
# where they are by CMAKE_PREFIX_PATH, or their headers by CPATH. Where PYTHON lacks scikit-build-core, CMake is called
# directly. Sets `python` and `jobs`. Variables: PYTHON (python3), JOBS (the number of cores).
# shellcheck shell=bash

python=$(command -v "${PYTHON:-python3}")
jobs=${JOBS:-$(nproc)}
package=$PWD/build/$1/package
build=$PWD/build/$1/cmake
mkdir -p "$package" "$build"

echo "Locus for $("$python" -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)') …"
# Packages that are headers only need no more than to be found.
headers=()
for name in nlohmann_json fmt; do
  case $name in
    nlohmann_json) file=nlohmann/json.hpp target=nlohmann_json::nlohmann_json version=3.11.0 ;;
    fmt) file=fmt/core.h target=fmt::fmt-header-only version=10.0.0 ;;
  esac
  for folder in ${CPATH:+${CPATH//:/ }}; do
    [ -f "$folder/$file" ] || continue
    mkdir -p "$build/found/$name"
    printf 'add_library(%s INTERFACE IMPORTED)\ntarget_include_directories(%s INTERFACE "%s")\n' \
      "$target" "$target" "$folder" >"$build/found/$name/${name}Config.cmake"
    [ $name = nlohmann_json ] ||
      printf 'target_compile_definitions(%s INTERFACE FMT_HEADER_ONLY=1)\n' "$target" >>"$build/found/$name/${name}Config.cmake"
    printf 'set(PACKAGE_VERSION %s)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n' "$version" \
      >"$build/found/$name/${name}ConfigVersion.cmake"
    headers+=("-D${name}_DIR=$build/found/$name")
    break
  done
done
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S . -B "$build" "${generator[@]}" -DLOCUS_BUILD_BRIDGE=ON -DPython_EXECUTABLE="$python" \
  -DCMAKE_INSTALL_PREFIX="$package" ${headers[@]+"${headers[@]}"} >"$build/log" 2>&1 || { tail -n 30 "$build/log" >&2; exit 1; }
cmake --build "$build" -j "$jobs" >>"$build/log" 2>&1 || { grep -E 'error|Error' "$build/log" | head -n 20 >&2; exit 1; }
cp -r python/locus python/locus-startup.pth "$package"
cmake --install "$build" >>"$build/log" 2>&1
# The .pth file is read from a site folder only; programs that start further processes need it.
export PYTHONPATH="$package${PYTHONPATH:+:$PYTHONPATH}"
cat >"$package/sitecustomize.py" <<'PYTHON'
import site

site.addsitedir(__file__.rpartition("/")[0])
PYTHON
"$python" -m locus doctor | head -n 6
