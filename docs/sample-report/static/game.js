// The viewer of a run's games. Everything that comes from data is put in as text (textContent, setAttribute), never as markup.
"use strict";
const mugEval = (() => {
  const ROW = 58, KEPT = 6;
  const [INDEX, QUESTION, FLAGS, TYPE, EDIT, ANSWER, ABOUT] = [0, 1, 2, 3, 4, 5, 6];
  const at = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  let data = null, shown = [], current = -1, revealed = false, always = false, plain = false;
  const chunks = new Map(), waiting = new Map(), places = new Map();

  // --- making elements

  function make(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
    for (const child of children) if (child !== null && child !== undefined && child !== "") element.append(child);
    return element;
  }
  function draw(name, attributes, ...children) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  const bdi = (text) => make("bdi", null, String(text));
  const words = (text) => make("div", { class: "words", dir: "auto" }, text === "" ? "(said nothing)" : String(text));

  // --- data

  function list(text) {
    data = JSON.parse(text);
    data.rows.forEach((row, place) => { if (!places.has(row[INDEX])) places.set(row[INDEX], place); });
    data.texts = data.rows.map((row) => (row[INDEX] + "\n" + row[QUESTION] + "\n" + row[ANSWER] + "\n" + row[ABOUT]).toLowerCase());
    start();
  }
  function chunk(text) {
    const { at: number, games } = JSON.parse(text);
    chunks.set(number, games);
    for (const resolve of waiting.get(number) || []) resolve(games);
    waiting.delete(number);
  }
  function load(number) {
    if (chunks.has(number)) {
      const games = chunks.get(number);
      chunks.delete(number);
      chunks.set(number, games); // the last to be dropped
      return Promise.resolve(games);
    }
    return new Promise((resolve, reject) => {
      if (waiting.has(number)) { waiting.get(number).push(resolve); return; }
      waiting.set(number, [resolve]);
      // A script, not fetch(): pages that are opened from disk may not fetch.
      const script = make("script", { src: `data/${data.slug}/${number}.js` });
      script.onload = () => { script.remove(); for (const old of [...chunks.keys()].slice(0, Math.max(0, chunks.size - KEPT))) chunks.delete(old); };
      script.onerror = () => { script.remove(); waiting.delete(number); reject(new Error(`data/${data.slug}/${number}.js is not there`)); };
      document.head.append(script);
    });
  }

  // --- the list

  function fate(place) {
    const other = data.others[at("against").selectedIndex];
    if (!other) return "";
    const mine = data.rows[place][FLAGS].includes("r"), theirs = other.right[place] === "1";
    return mine === theirs ? "" : mine ? "fixed" : "broken";
  }
  function wanted(place, show, type, edit, terms) {
    const row = data.rows[place], flags = row[FLAGS];
    if (type && row[TYPE] !== type) return false;
    if (edit && row[EDIT] !== edit) return false;
    if (show === "fixed" || show === "broken") { if (fate(place) !== show) return false; }
    else if (show && !flags.includes({ right: "r", wrong: "w", survived: "s", found: "f", unparsed: "u" }[show])) return false;
    return terms.every((term) => data.texts[place].includes(term));
  }
  function filter() {
    const terms = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [show, type, edit] = ["show", "type", "edit"].map((id) => at(id).value);
    shown = [];
    for (let place = 0; place < data.rows.length; place++) if (wanted(place, show, type, edit, terms)) shown.push(place);
    at("count").textContent = shown.length === data.rows.length ? `${shown.length} games` : `${shown.length} of ${data.rows.length} games`;
    at("tall").style.height = `${shown.length * ROW}px`;
    paint();
  }
  function paint() {
    const box = at("list");
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 4);
    const rows = [];
    for (let number = first; number < last; number++) {
      const place = shown[number], row = data.rows[place], right = row[FLAGS].includes("r"), change = fate(place);
      const state = make("b", { class: right ? "good" : "bad" }, right ? "right" : "wrong");
      rows.push(make("a", { class: "row", role: "option", href: "#" + encodeURIComponent(row[INDEX]), "aria-selected": String(place === current), style: `top:${number * ROW}px`, tabindex: "-1" },
        make("div", { class: "q", dir: "auto" }, row[QUESTION] || row[INDEX]),
        make("div", { class: "s" }, state, change ? ` · ${change}` : "", " · ", bdi(row[ANSWER]), row[TYPE] ? " · " : "", row[TYPE] ? bdi(row[TYPE]) : "", " · ", bdi(row[INDEX]))));
    }
    at("tall").replaceChildren(...rows);
  }
  function into_view() {
    const number = shown.indexOf(current), box = at("list");
    if (number < 0) return;
    if (number * ROW < box.scrollTop || (number + 1) * ROW > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, (number - 2) * ROW);
  }

  // --- one game

  function step(by) {
    if (!shown.length) return;
    const number = shown.indexOf(current);
    // Not in the list as it is filtered now: the nearest one in the asked direction.
    const next = number >= 0 ? number + by : by > 0 ? shown.findIndex((place) => place > current) : shown.findLastIndex((place) => place < current);
    if (next >= 0 && next < shown.length) go(shown[next]);
  }
  function go(place) { location.hash = "#" + encodeURIComponent(data.rows[place][INDEX]); }

  async function open(place) {
    current = place;
    revealed = always;
    paint();
    into_view();
    const number = Math.floor(place / data.chunk);
    let games;
    try { games = await load(number); } catch (error) { if (place === current) say(String(error.message)); return; }
    if (place !== current) return; // somebody was quicker
    render(games[place - number * data.chunk]);
    document.title = `${data.rows[place][INDEX]} · ${document.querySelector("nav.top a:nth-child(2)").textContent}`;
    for (const near of [number - 1, number + 1]) if (near >= 0 && near * data.chunk < data.rows.length && Math.abs(near * data.chunk + data.chunk / 2 - place) < data.chunk) load(near).catch(() => {});
  }
  function say(text) { at("game").replaceChildren(make("p", { class: "quiet" }, text)); }

  const colours = (game) => {
    const seats = [...game.order];
    for (const event of game.events) if (event.seat && !seats.includes(event.seat)) seats.push(event.seat);
    return (seat) => { const place = seats.indexOf(seat); return place < 0 ? "" : `--who:var(--a${Math.min(place, 7)})`; };
  };
  const asked = (game, letter) => { const option = game.options.find(([name]) => name === letter); return option ? `${letter}, ${option[1]}` : letter; };

  function render(game) {
    const style = colours(game), page = at("game");
    page.classList.toggle("revealed", revealed);
    page.classList.toggle("plain", plain);
    const parts = [head(game), make("h1", { class: "question" + (game.question.length > 220 ? " long" : ""), dir: "auto" }, game.question || game.index)];
    if (game.options.length) parts.push(options(game));
    if (game.hint) parts.push(make("p", { class: "hint", dir: "auto" }, game.hint));
    parts.push(pictures(game));
    const groups = [];
    for (const event of game.events) {
      if (!groups.length || groups[groups.length - 1].heading !== event.heading) groups.push({ heading: event.heading, events: [] });
      groups[groups.length - 1].events.push(event);
    }
    const out = new Set();
    for (const group of groups) parts.push(stage(game, group, style, out));
    if (game.seated) parts.push(guess(game, style));
    parts.push(end(game));
    parts.push(make("p", { class: "keys" }, ...[["←", "→"], " earlier, later game  ", ["/"], " search  ", ["u"], " undercover  ", ["a"], " always show it  ", ["o"], " outline"].flatMap((part) => Array.isArray(part) ? part.flatMap((key) => [make("kbd", null, key), " "]) : [part])));
    page.replaceChildren(...parts);
    page.scrollTop = 0;
  }
  function head(game) {
    const number = shown.indexOf(current), change = fate(current);
    const before = make("button", { type: "button", id: "before", "aria-label": "earlier game", disabled: number === 0 }, "←");
    const after = make("button", { type: "button", id: "after", "aria-label": "later game", disabled: number === shown.length - 1 }, "→");
    before.addEventListener("click", () => step(-1));
    after.addEventListener("click", () => step(1));
    const chip = make("span", { class: "chip " + (game.right ? "good" : "bad") }, game.right ? "right" : "wrong");
    return make("div", { class: "bar" }, before, after, make("span", { class: "id" }, bdi(game.index)), number >= 0 ? `${number + 1} of ${shown.length}` : "not in this list",
      make("span", { class: "grow" }), game.category ? make("span", null, bdi(game.category)) : "", change ? make("span", { class: "chip " + (change === "fixed" ? "good" : "bad") }, change) : "", chip);
  }
  function options(game) {
    return make("ul", { class: "options" }, ...game.options.map(([letter, text]) => {
      const gold = letter === game.gold, mine = letter === game.answer;
      const tag = gold && mine ? "answer and gold" : gold ? "gold" : mine ? "answer" : "";
      return make("li", { class: gold ? "gold" : mine ? "missed" : "" }, make("b", null, letter), bdi(text), tag ? make("span", { class: "tag" }, tag) : "");
    }));
  }
  function figure(picture, boxes, name, about) {
    const overlay = boxes && boxes.length ? [draw("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }, ...boxes.map(([x, y, w, h]) => draw("rect", { x, y, width: w, height: h })))] : [];
    const image = make("img", { src: picture.src, width: picture.w, height: picture.h, loading: "lazy", decoding: "async", alt: name });
    return make("figure", null, make("a", { class: "frame" + (picture.w < 240 ? " small" : ""), href: picture.src, target: "_blank", rel: "noopener", style: "display:block" }, image, ...overlay), make("figcaption", null, make("b", null, name), " ", about));
  }
  function pictures(game) {
    const box = make("div", { class: "pictures" }), many = game.pictures.length > 1;
    game.pictures.forEach((picture, place) => {
      const pair = game.altered && game.altered.at === place;
      box.append(figure(picture, pair ? game.boxes : null, many ? `I+ ${place + 1}` : game.altered ? "I+" : "The picture", game.altered ? "what the others see" : ""));
      if (pair) {
        const edit = game.edit.instruction || [game.edit.edit, game.edit.target].filter(Boolean).join(": ");
        box.append(figure(game.altered, game.boxes, "I−", make("span", null, "what the undercover sees", edit ? ": " : "", edit ? bdi(edit) : "", game.boxes === null ? " (most of the picture differs)" : game.boxes.length ? "" : " (no visible difference)")));
      }
    });
    if (game.note) box.append(make("p", { class: "quiet note" }, game.note));
    return box;
  }
  function stage(game, group, style, out) {
    const section = make("section", { class: "stage" }, make("h3", null, group.heading));
    const votes = group.events.filter((event) => event.kind === "vote");
    if (votes.length) section.append(ballot(game, votes, group.events.find((event) => event.kind === "elimination"), style));
    const cards = group.events.filter((event) => event.kind !== "vote" && event.kind !== "elimination");
    if (cards.length) section.append(make("div", { class: "said" }, ...cards.map((event) => card(game, event, style, out))));
    for (const event of group.events) if (event.kind === "elimination") { section.append(elimination(game, event)); if (event.eliminated) out.add(event.eliminated); }
    return section;
  }
  function card(game, event, style, out) {
    const about = event.stance !== undefined && event.stance !== null ? ` on ${event.stance}` : "";
    const read = "answer" in event ? (event.answer === null ? "no answer read" : `answer ${event.answer}`) + (event.asked ? ", asked again" : "") : event.asked ? "asked again" : "";
    const votes = event.votes && typeof event.votes === "object" ? Object.entries(event.votes).map(([answer, count]) => `${answer}: ${count}`).join(",  ") : "";
    return make("article", { class: "card" + (event.seat && event.seat === game.undercover ? " odd" : "") + (out.has(event.seat) ? " out" : ""), style: style(event.seat) },
      event.seat || read || about ? make("header", null, event.seat ? make("span", { class: "who" }, bdi(event.seat)) : "", about ? make("span", { class: "quiet" }, bdi(about)) : "", read ? make("span", { class: "read" }, bdi(read)) : "") : "",
      "text" in event ? words(event.text === null ? "" : event.text) : "", votes ? words(votes) : "", event.more ? make("div", { class: "more" }, bdi(event.more)) : "");
  }
  function ballot(game, votes, outcome, style) {
    const odd = (seat) => (seat === game.undercover ? "odd" : "");
    const factors = [...new Set(votes.flatMap((vote) => Object.values(vote.ratings || {}).flatMap((rating) => Object.keys(rating))))];
    const body = make("tbody");
    for (const vote of votes) {
      const rated = Object.entries(vote.ratings || {});
      rated.forEach(([seat, rating], place) => {
        const mine = seat === vote.vote;
        body.append(make("tr", { class: mine ? "voted" : "" },
          place === 0 ? make("td", { rowspan: rated.length, style: style(vote.seat), class: odd(vote.seat) }, make("span", { class: "who" }, bdi(vote.seat))) : "",
          make("td", { style: style(seat), class: odd(seat) }, make("span", { class: "who" }, bdi(seat))),
          ...factors.map((factor) => score(Object.hasOwn(rating, factor) ? rating[factor] : null)),
          make("td", null, mine ? "← vote" : "")));
      });
      if (!rated.length || vote.vote === null || vote.vote === undefined) body.append(make("tr", null, make("td", { style: style(vote.seat), class: odd(vote.seat) }, make("span", { class: "who" }, bdi(vote.seat))), make("td", { colspan: factors.length + 2 }, vote.vote ? make("span", null, "votes for ", bdi(vote.vote)) : "abstains", vote.reason ? make("span", null, ": ", bdi(vote.reason)) : "")));
    }
    const headings = ["voter", "rates", ...factors, ""].map((name, place) => make("th", { class: place > 1 && name ? "score" : "" }, bdi(name.replaceAll("_", " "))));
    return make("div", { class: "ballot" }, arrows(game, votes, outcome, style), make("div", { class: "scroll" }, make("table", { class: "ratings" }, make("thead", null, make("tr", null, ...headings)), body)));
  }
  function score(value) {
    const known = typeof value === "number";
    const strength = known ? Math.round(Math.max(0, Math.min(10, value)) * 4.5) : 0;
    return make("td", { class: "score", style: strength ? `background:color-mix(in srgb, var(--bad) ${strength}%, transparent)` : null }, known ? String(value) : "–");
  }
  function arrows(game, votes, outcome, style) {
    // Who votes for whom, the agents of this ballot on a circle.
    const seats = game.order.filter((seat) => votes.some((vote) => vote.seat === seat || vote.vote === seat));
    for (const vote of votes) for (const seat of [vote.seat, vote.vote]) if (seat && !seats.includes(seat)) seats.push(seat);
    const [width, height, reach, size] = [250, 216, 68, 15];
    const spot = (seat) => { const angle = -Math.PI / 2 + (2 * Math.PI * seats.indexOf(seat)) / seats.length; return [width / 2 + reach * 1.15 * Math.cos(angle), 112 + reach * Math.sin(angle)]; };
    const svg = draw("svg", { class: "arrows", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": votes.map((vote) => `${vote.seat} votes for ${vote.vote || "nobody"}`).join(", ") });
    for (const vote of votes) {
      if (!vote.vote || vote.vote === vote.seat) continue;
      const [x1, y1] = spot(vote.seat), [x2, y2] = spot(vote.vote), length = Math.hypot(x2 - x1, y2 - y1), [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
      // Bent to the right of its way, so that two votes for each other do not lie on one line.
      const [cx, cy] = [(x1 + x2) / 2 - uy * 20, (y1 + y2) / 2 + ux * 20];
      const into = Math.hypot(x2 - cx, y2 - cy), [ex, ey] = [(x2 - cx) / into, (y2 - cy) / into], from = Math.hypot(cx - x1, cy - y1);
      const [tx, ty] = [x2 - ex * (size + 4), y2 - ey * (size + 4)], [sx, sy] = [x1 + ((cx - x1) / from) * (size + 2), y1 + ((cy - y1) / from) * (size + 2)];
      const [bx, by] = [tx - ex * 9, ty - ey * 9];
      svg.append(draw("g", { style: style(vote.seat) }, draw("path", { class: "vote", d: `M${sx},${sy}Q${cx},${cy} ${bx},${by}` }), draw("path", { class: "head", d: `M${tx},${ty}L${bx - ey * 5},${by + ex * 5}L${bx + ey * 5},${by - ex * 5}Z` })));
    }
    seats.forEach((seat) => {
      const [x, y] = spot(seat), gone = outcome && outcome.eliminated === seat, above = y < 112 - 5;
      const group = draw("g", { style: style(seat), class: [gone ? "gone" : "", seat === game.undercover ? "odd" : ""].join(" ") }, draw("circle", { cx: x, cy: y, r: size }));
      if (gone) group.append(draw("line", { x1: x - 8, y1: y - 8, x2: x + 8, y2: y + 8 }), draw("line", { x1: x - 8, y1: y + 8, x2: x + 8, y2: y - 8 }));
      group.append(draw("text", { x, y: above ? y - size - 6 : y + size + 15 }, seat));
      svg.append(group);
    });
    return svg;
  }
  function elimination(game, event) {
    const counts = Object.entries(event.votes || {}).map(([seat, count]) => `${seat}: ${count}`).join(", ");
    const tied = event.tied && event.tied.length ? `, drawn among ${event.tied.join(", ")}` : "";
    const line = event.eliminated ? `${event.eliminated} is voted out (votes: ${counts}${tied}).` : `Nobody is voted out (votes: ${counts || "none"}).`;
    const truth = event.eliminated && game.undercover ? ` It was ${event.eliminated === game.undercover ? "" : "not "}the undercover.` : "";
    return make("p", { class: "result" }, bdi(line), truth ? make("span", { class: "truth", hidden: !revealed }, truth) : "");
  }
  function guess(game, style) {
    const box = make("div", { class: "guess", id: "guess" });
    if (revealed) answer_guess(game, box, null);
    else {
      box.append("Who is the undercover?");
      for (const seat of game.order) {
        const button = make("button", { type: "button", class: "agent", style: style(seat) }, bdi(seat));
        button.addEventListener("click", () => reveal(game, seat));
        box.append(button);
      }
      const tell = make("button", { type: "button", id: "reveal" }, "Show");
      tell.addEventListener("click", () => reveal(game, null));
      box.append(tell);
    }
    return make("section", { class: "stage" }, make("h3", null, "The undercover"), box);
  }
  function answer_guess(game, box, seat) {
    const holds = game.holds ? `, holding ${game.holds}` : "";
    const line = game.undercover ? [bdi(game.undercover), ` is the undercover${holds}; it was ${game.found === true ? "found" : game.found === false ? "not found" : "not played to the end"}.`] : ["Nobody is the undercover in this game."];
    const verdict = seat === null ? "" : make("b", { class: seat === game.undercover ? "good" : "bad" }, seat === game.undercover ? "Right: " : "No: ");
    box.replaceChildren(make("span", null, verdict, ...line));
  }
  function reveal(game, seat) {
    revealed = true;
    at("game").classList.add("revealed");
    for (const truth of at("game").querySelectorAll(".truth")) truth.hidden = false;
    answer_guess(game, at("guess"), seat);
  }
  function end(game) {
    const entry = (name, value, kind) => make("div", null, make("span", null, name), make("div", { class: "value " + (kind || ""), dir: "auto" }, value));
    const final = game.answer === null ? `none (${game.unparsed})` : asked(game, game.answer);
    const price = [game.calls === null || game.calls === undefined ? "" : `${game.calls} calls`, game.tokens === null ? "" : `${game.tokens} tokens`, typeof game.seconds === "number" ? `${game.seconds.toFixed(1)} s` : ""].filter(Boolean).join(", ");
    return make("section", { class: "stage" }, make("h3", null, "The end"), make("div", { class: "end" },
      entry("answer", final, game.right ? "good" : "bad"), game.gold === null ? entry("scored as", game.right ? "right" : "wrong") : entry("gold", asked(game, game.gold)),
      game.seated && game.found !== null ? "" : entry("ended", game.ended), entry("price", price)));
  }

  // --- starting, keys

  function choose(id, values) {
    const select = at(id), many = values.length > 1;
    for (const value of values) select.append(make("option", { value }, value));
    select.hidden = !many;
  }
  function from_address() {
    let index;
    try { index = decodeURIComponent(location.hash.slice(1)); } catch { index = ""; }
    if (places.has(index)) { if (places.get(index) !== current) open(places.get(index)); document.body.classList.remove("listing"); return; }
    if (index) { current = -1; paint(); say(`There is no game ${index} in this run.`); return; }
    if (shown.length) open(shown[0]);
    else say("No game is like that.");
  }
  function start() {
    const different = (column) => [...new Set(data.rows.map((row) => row[column]).filter(Boolean))].sort();
    choose("type", different(TYPE));
    choose("edit", different(EDIT));
    for (const other of data.others) at("against").append(make("option", { value: other.slug }, other.label));
    at("against-label").hidden = !data.others.length;
    const hunted = data.rows.some((row) => /[sf]/.test(row[FLAGS]));
    for (const option of at("show").options) {
      if (["fixed", "broken"].includes(option.value)) option.hidden = option.disabled = !data.others.length;
      if (["survived", "found"].includes(option.value)) option.hidden = option.disabled = !hunted;
    }
    const asked = new URLSearchParams(location.search);
    for (const id of ["show", "type", "edit", "against"]) if ([...at(id).options].some((option) => option.value === asked.get(id))) at(id).value = asked.get(id);
    at("search").value = asked.get("search") || "";
    filter();
    for (const id of ["show", "type", "edit", "against"]) at(id).addEventListener("change", filtered);
    at("search").addEventListener("input", filtered);
    at("list").addEventListener("scroll", () => requestAnimationFrame(paint), { passive: true });
    at("drawer").addEventListener("click", () => { const open = document.body.classList.toggle("listing"); at("drawer").setAttribute("aria-expanded", String(open)); filter(); into_view(); });
    addEventListener("resize", paint);
    addEventListener("hashchange", from_address);
    addEventListener("keydown", key);
    at("list").addEventListener("click", (event) => { if (event.target.closest(".row")) document.body.classList.remove("listing"); });
    from_address();
  }
  function filtered() {
    at("list").scrollTop = 0;
    filter();
    if (document.body.classList.contains("listing")) return;
    if (shown.length && !shown.includes(current)) go(shown[0]);
    else if (current >= 0) load(Math.floor(current / data.chunk)).then((games) => { const before = document.querySelector("#game .bar"); if (before) before.replaceWith(head(games[current % data.chunk])); });
  }
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape") { document.activeElement.blur(); document.body.classList.remove("listing"); return; }
    if (typing) { if (event.key === "Enter" && event.target.id === "search") { event.target.blur(); if (shown.length) go(shown[0]); } return; }
    const does = {
      ArrowRight: () => step(1), j: () => step(1), ArrowLeft: () => step(-1), k: () => step(-1),
      Home: () => shown.length && go(shown[0]), End: () => shown.length && go(shown[shown.length - 1]),
      "/": () => { document.body.classList.add("listing"); at("search").focus(); at("search").select(); },
      u: () => { const tell = at("reveal"); if (tell) tell.click(); },
      a: () => { always = !always; revealed = always; load(Math.floor(current / data.chunk)).then((games) => render(games[current % data.chunk])); },
      o: () => { plain = !plain; at("game").classList.toggle("plain", plain); },
    }[event.key];
    if (does) { event.preventDefault(); does(); }
  }

  return { list, chunk };
})();
